"""Study ``elements``: superconductors as bags of chemical elements, against 81 features made by hand.

The features are statistics of the properties and fractions that the bags hold. Every network is a ``BagRegressor``, and
rows on bags differ in the pool and its learning rate alone: one start of the encoder, one loss, the same batches.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.splits import Split
from excora.peers import Part, peers
from excora_studies.elements import page
from excora_studies.elements.bags import FILE, Materials, read
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.small_tables import find_folder
from excora_studies.synthetic import spread
from excora_studies.tabular.scores import pack, paired, scores, unpack
from excora_studies.tabular.sets import make_split

TREES, NETWORK = "81 features, ExtraTrees", "81 features, network"
SPLITS = ("random", "grouped")
ROWS = ("bags, mean", "bags, softmax", "bags, eca", NETWORK, TREES)
#: Rows whose difference is shown with an interval.
PAIRS = (("bags, eca", "bags, softmax"), ("bags, eca", "bags, mean"), ("bags, eca", NETWORK), ("bags, eca", TREES))
#: Options of every ``BagRegressor``, chosen on a validation part with softmax attention.
OPTIONS = {
    "dim": 128,
    "layers": 2,
    "head": 1,
    "epochs": 12,
    "batch_size": 256,
    "schedule": "cosine",
    "clip": 1.0,
    "average": 0.99,
    "weight_decay": 1e-4,
}
#: Of these learning rates every network gets the one with its highest validation PCC on the split of TUNED.
RATES = (1e-3, 3e-3, 1e-2)
TUNED = ("random", 0)
#: Test materials that an element must occur in, over all seeds, to be in the figure.
OFTEN = 100


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:
    """Everything that the numbers depend on, but for the folder of the files."""
    quick = preset == "quick"
    find_folder(data, [FILE])
    options = OPTIONS | {"epochs": 2, "dim": 8} if quick else OPTIONS
    sizes = {"trees": 5, "materials": 400} if quick else {"trees": 150, "materials": None}
    rates = RATES[1:] if quick else RATES
    return {"seeds": list(range(seeds or (1 if quick else 3))), "setup": options, "rates": list(rates), **sizes}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """The learning rates first; for each split and seed a chunk that says what is to be predicted, one for each row."""
    materials = functools.cache(lambda: read(data, configuration["materials"]))

    def test(split: str, seed: int) -> Chunk:
        return Chunk(_key(split, seed, "test"), 0, lambda _, __: _test(materials(), split, seed))

    def one(split: str, seed: int, row: str) -> Chunk:
        def compute(done: Results, tick: Tick) -> dict[str, Any]:
            found = _fit(materials(), split, seed, row, configuration, done.get(_tuning(row)))
            tick()
            return found

        return Chunk(_key(split, seed, row), 1, compute)

    def rate(row: str) -> Chunk:
        return Chunk(
            _tuning(row), len(configuration["rates"]), lambda _, tick: _tune(materials(), row, configuration, tick)
        )

    found = [rate(row) for row in ROWS if row != TREES]
    for seed in configuration["seeds"]:
        for split in SPLITS:
            found += [test(split, seed), *(one(split, seed, row) for row in ROWS)]
    return found


def _tuning(row: str) -> str:
    return f"learning rate | {row}"


def _key(split: str, seed: int, row: str) -> str:
    return f"{split} | seed {seed} | {row}"


class Task:
    """What a row learns from (``known``: training and validation part) and is tested on."""

    def __init__(self, materials: Materials, split: str, seed: int) -> None:
        parts: Split = make_split(materials.table, split, seed)
        assert materials.table.target is not None
        assert materials.table.group is not None
        self.known, self.test = np.concatenate([parts.train, parts.validation]), parts.test
        self.target: NDArray[np.float64] = materials.table.target[:, 0]
        self.groups = materials.table.group[self.known] if split == "grouped" else None
        self._mean, self._deviation = self.target[self.known].mean(), self.target[self.known].std()

    def scaled(self, temperature: NDArray[np.float64]) -> NDArray[np.float64]:
        """In deviations of the known materials from their mean."""
        found: NDArray[np.float64] = (temperature - self._mean) / self._deviation
        return found


def _test(materials: Materials, split: str, seed: int) -> dict[str, Any]:
    """The target of the test part, and the composition of each material by number: those are resampled whole."""
    task = Task(materials, split, seed)
    assert materials.table.group is not None
    composition = np.unique(materials.table.group, return_inverse=True)[1]
    return {"target": pack(task.scaled(task.target[task.test])), "unit": composition[task.test].tolist()}


def _tune(materials: Materials, row: str, configuration: dict[str, Any], tick: Tick) -> dict[str, Any]:
    """The learning rate of a network with the highest validation PCC, and that PCC by rate; no test part is read."""
    task, found = Task(materials, *TUNED), []
    for rate in configuration["rates"]:
        model = _model(materials, task, row, TUNED[1], configuration["setup"] | {"learning_rate": rate})
        found.append(model.history_[model.best_epoch_]["validation_pcc"])
        tick()
    return {"rate": configuration["rates"][int(np.argmax(found))], "validation_pcc": found}


def _fit(
    materials: Materials, split: str, seed: int, row: str, configuration: dict[str, Any], tuned: dict[str, Any] | None
) -> dict[str, Any]:
    """Scores of a row on the test part, its predictions there, standardised, and its attention."""
    task = Task(materials, split, seed)
    start = time.process_time()
    if tuned is None:
        prediction, more = _trees(materials, task, seed, configuration)
    else:
        prediction, more = _network(
            materials, task, row, seed, configuration["setup"] | {"learning_rate": tuned["rate"]}
        )
    seconds = time.process_time() - start
    result = scores(prediction, task.target[task.test])
    return {**result, "seconds": seconds, **more, "prediction": pack(task.scaled(prediction))}


def _features(materials: Materials) -> NDArray[np.float64]:
    content: Any = materials.table.content
    return np.asarray(content.frame.to_numpy(np.float64))


def _bags(materials: Materials, row: str, part: NDArray[np.intp]) -> list[NDArray[np.float32]]:
    """The features are a bag of one element."""
    return list(_features(materials)[part][:, None]) if row == NETWORK else [materials.bags[k] for k in part]


def _model(materials: Materials, task: Task, row: str, seed: int, options: dict[str, Any]) -> Any:
    """A ``BagRegressor``, which picks its own validation part; for the features any pool will do."""
    from excora.estimators import BagRegressor

    pool = "mean" if row == NETWORK else row.removeprefix("bags, ")
    model = BagRegressor(pool=pool, **options, random_state=seed)
    return model.fit(_bags(materials, row, task.known), task.target[task.known], groups=task.groups)


def _network(
    materials: Materials, task: Task, row: str, seed: int, options: dict[str, Any]
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Its predictions, its epoch and its attention."""
    model, test = _model(materials, task, row, seed, options), _bags(materials, row, task.test)
    more: dict[str, Any] = {"epoch": model.best_epoch_ + 1, "validation": model.history_[model.best_epoch_]}
    if row != NETWORK:
        more |= _attention(materials, task.test, model.attention(test))
    return model.predict(test), more


def _trees(
    materials: Materials, task: Task, seed: int, configuration: dict[str, Any]
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Has nothing to stop, and so learns from all known materials."""
    x, y = _features(materials), task.target[:, None]
    settings = {"n_estimators": configuration["trees"], "max_features": 0.33}
    model = peers["extratrees"].fit(Part(x[task.known], y[task.known]), settings, seed=seed)
    return model.predict(x[task.test])[:, 0], {}


def _attention(
    materials: Materials, test: NDArray[np.intp], found: list[tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> dict[str, Any]:
    """By element: test materials that hold it, and the sums over them of its attention weight and of its fraction.

    And the mean gain, where the pool has one: (effective - 1/n) = gamma (weights - 1/n) in a bag of n elements.
    """
    element, fraction = materials.element[test], materials.fraction[test]
    real, weights = element >= 0, np.concatenate([one for one, _ in found])
    sums = [np.bincount(element[real], part, len(materials.names)) for part in (None, weights, fraction[real])]
    by_name = dict(zip(materials.names, np.stack(sums, 1).tolist(), strict=True))
    more: dict[str, Any] = {"attention": {name: row for name, row in by_name.items() if row[0]}}
    if any((one != effective).any() for one, effective in found):
        spread_out = [(a - 1 / len(a), e - 1 / len(a)) for a, e in found if np.ptp(a) > 1e-6]
        gamma = [a @ e / (a @ a) for a, e in spread_out]
        more |= {"gamma": float(np.mean(gamma)), "gamma sd": float(np.std(gamma))}
    return more


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Scores by split and row, differences with their intervals, and which elements are looked at."""
    table = _table(configuration, results)
    differences = {split: _differences(configuration, results, split) for split in SPLITS}
    rows = [row | {"paper": "not in the paper"} for row in table]
    notes = [
        f"{split}: PCC of {first} - {second}: {bounds['difference']:+.4f} [{bounds['low']:+.4f}, {bounds['high']:+.4f}]"
        for split, found in differences.items()
        for (first, second), bounds in zip(PAIRS, (one["PCC"] for one in found.values()), strict=True)
    ]
    summary = {"differences": differences, "elements": _elements(configuration, results)}
    columns = ("split", "row", "MAE", "MSE", "PCC", "seconds", "gamma")
    return Report(rows, summary, {"attention": page.figure(summary["elements"])}, notes, columns)


def _table(configuration: dict[str, Any], results: Results) -> list[dict[str, Any]]:
    rows = []
    for split in SPLITS:
        for name in ROWS:
            runs = [results[_key(split, seed, name)] for seed in configuration["seeds"]]
            row: dict[str, Any] = {"split": split, "row": name}
            for column in ("MAE", "MSE", "PCC"):
                row[column], row[f"{column} sd"] = spread([run[column] for run in runs])
            row["seconds"] = spread([run["seconds"] for run in runs])[0]
            row["rate"] = results[_tuning(name)]["rate"] if name != TREES else None
            row["gamma"] = spread([run["gamma"] for run in runs])[0] if "gamma" in runs[0] else None
            rows.append(row)
    return rows


def _differences(configuration: dict[str, Any], results: Results, split: str) -> dict[str, Any]:
    """The pairs' differences in PCC and in MSE (standardised), with intervals."""
    seeds = configuration["seeds"]
    tests = [results[_key(split, seed, "test")] for seed in seeds]
    target, unit = [unpack(test["target"]) for test in tests], [np.array(test["unit"], np.intp) for test in tests]

    def of(row: str) -> list[NDArray[np.float64]]:
        return [unpack(results[_key(split, seed, row)]["prediction"]) for seed in seeds]

    return {f"{first} - {second}": paired(of(first), of(second), target, unit) for first, second in PAIRS}


def _elements(configuration: dict[str, Any], results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """By pool and element: materials, mean attention weight and mean fraction, over the test parts of all splits."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for pool in page.LOOKED_AT:
        total: dict[str, NDArray[np.float64]] = {}
        for split in SPLITS:
            for seed in configuration["seeds"]:
                for name, row in results[_key(split, seed, f"bags, {pool}")]["attention"].items():
                    total[name] = total.get(name, np.zeros(3)) + row
        often = min(OFTEN, max(row[0] for row in total.values()))
        found[pool] = {
            name: {"materials": row[0], "weight": row[1] / row[0], "fraction": row[2] / row[0]}
            for name, row in total.items()
            if row[0] >= often
        }
    return found


#: For the pages: what stands between the marks of that name.
BLOCKS = {"elements": page.block}
