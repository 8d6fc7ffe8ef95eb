"""Study ``spatial``: gene expression from image features, on sections and blocks of tissue that no arm has seen.

Every arm reads the same features, folds and genes, has its settings picked on a validation section by equally many
trials, and is then fitted to training and validation sections together; the tested one is looked at once.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from excora.data.spatial.extraction import cache_folder
from excora.errors import InputError
from excora.stats.correlation import Array
from excora.stats.paired import Predicted, draw, errors, pairwise
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.spatial import page
from excora_studies.spatial.rows import Arm, arms, pick, scores
from excora_studies.spatial.sets import SETS, VALIDATION, Fold, Task, find_folder, prepare, slides, there
from excora_studies.spatial.sets import folds as folds_of
from excora_studies.synthetic import spread

#: Rows whose difference is shown with an interval.
PAIRS = (
    ("spots, ECA", "spots, softmax"),
    ("spots, ECA", "spots, mean"),
    ("spots, [attended, mean, sd]", "spots, ECA"),
    ("spots, exemplars, ECA", "spots, exemplars, softmax"),
    ("spots, exemplars, ECA", "spots, ECA"),
    ("spots, ECA", "ridge start alone"),
    ("spots, exemplars, ECA", "ridge, with neighbours"),
    ("spots, exemplars, ECA", "ridge, PCA-256"),
    ("EGN + ECA", "EGN"),
)
#: Resamples of the intervals: each takes a correlation of every gene, arm, fold and seed.
RESAMPLES = 300
#: Rows that take minutes a fold; the Visium slide goes without.
SLOW = ("EGN", "EGN + ECA", "LightGBM")
METRICS = ("PCC@F", "PCC@S", "PCC@M", "MSE")


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:
    """Everything that the numbers depend on, but for the folder of the files."""
    quick = preset == "quick"
    folder = find_folder(data)
    epochs = {"spots": 2, "egn": 1} if quick else {"spots": 6, "egn": 5}
    small = {"dim": 16, "layers": 2, "heads": 2, "hidden": 16} if quick else {"dim": 128, "layers": 4}
    return {
        "sets": {name: folds_of(folder, name) for name in SETS if there(folder, name)},
        "seeds": list(range(seeds or (1 if quick else 3))),
        "tried": [[3e-3, 1.0]] if quick else [[3e-3, 1.0], [1e-3, 1e-2]],  # learning rate, weight decay
        "neighbours": 4 if quick else 32, "components": 16 if quick else 128, "exemplars": 4 if quick else 32,
        "trees": 0 if quick else 64,
        "spots": {"dim": 64, "layers": 1, "dropout": 0.0, "neighbours": 4 if quick else 32},
        "spots recipe": {"epochs": epochs["spots"], "patience": 2, "batch_size": 64},
        "egn": {"patches": "grid", "exemplars": 9, **small},
        "egn recipe": {"epochs": epochs["egn"], "patience": 2, "batch_size": 64},
    }  # fmt: skip


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk for each fold and row, and one for the differences of a set."""
    folder = find_folder(data)

    @functools.lru_cache(maxsize=1)
    def task(fold: Fold) -> Task:
        sizes = {name: configuration[name] for name in ("neighbours", "components")}
        return prepare(slides(folder, fold.set), fold, **sizes)

    def one(fold: Fold, name: str, arm: Arm) -> Chunk:
        def compute(_: Results, tick: Tick) -> dict[str, Any]:
            found = _fit(task(fold), fold, name, arm, configuration)
            tick()
            return found

        return Chunk(_key(fold, name), 1, compute)

    rows, found = arms(configuration), []
    for name, sections in configuration["sets"].items():
        folds = [Fold(name, section) for section in sections]
        for slow in (False, True):  # what takes long comes last
            for fold in folds:
                chosen = [row for row in rows_of(configuration, fold) if slow == (row in SLOW)]
                found += [one(fold, row, rows[row]) for row in chosen]
        for what, some in _compared(configuration, folds).items():
            compute = functools.partial(_differences, configuration, *some, task)
            found.append(Chunk(f"{name} | {what}", 1, compute))
    return found


def rows_of(configuration: dict[str, Any], fold: Fold) -> list[str]:
    """The rows of a fold."""
    every = list(arms(configuration))
    return [row for row in every if row not in SLOW] if fold.set == "visium" else every


def _key(fold: Fold, row: str) -> str:
    return f"{fold.set} | {fold.name} | {row}"


def table_of(key: str) -> str:
    """The file of a chunk."""
    return key.partition(" | ")[0]


def _fit(task: Task, fold: Fold, row: str, arm: Arm, configuration: dict[str, Any]) -> dict[str, Any]:
    """What validation picked, and the scores on the tested part by seed."""
    begun = time.process_time()
    picked, test = pick(task, arm), task.parts.test
    runs, genes = [], []
    for seed in configuration["seeds"] if arm.seeded else configuration["seeds"][:1]:
        prediction, _ = arm.fit(task, picked.settings, seed, True)
        _keep(configuration, fold, row, seed, prediction[test])
        found = scores(task.preparation.unscale(prediction)[test], task.target[test])
        genes.append(np.array([np.nan if r is None else r for r in found.pop("by gene")]))
        runs.append(found)
    rho = np.nan_to_num(np.stack(genes)).mean(0)
    return {
        "settings": picked.settings, "validation": picked.score, "runs": runs, "by gene": rho.tolist(),
        "genes": list(task.preparation.targets) if row == "ridge" else [], "spots": len(test),
        "seconds": time.process_time() - begun,
    }  # fmt: skip


# Predictions are too many for the results: they are kept with what else can be computed again.


def _path(configuration: dict[str, Any], fold: Fold, row: str, seed: int) -> Path:
    words = json.dumps([configuration, *fold, row, seed], sort_keys=True)
    return cache_folder() / "studies" / f"{hashlib.sha256(words.encode()).hexdigest()}.npy"


def _keep(configuration: dict[str, Any], fold: Fold, row: str, seed: int, prediction: Array) -> None:
    path = _path(configuration, fold, row, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, prediction.astype(np.float32), allow_pickle=False)


def _kept(configuration: dict[str, Any], fold: Fold, row: str, seed: int, task: Any, settings: dict[str, Any]) -> Array:
    arm = arms(configuration)[row]
    path = _path(configuration, fold, row, seed if arm.seeded else configuration["seeds"][0])
    if not path.is_file():
        prediction, _ = arm.fit(task(fold), settings, seed, True)
        return prediction[task(fold).parts.test]
    return np.load(path, allow_pickle=False).astype(np.float64)


def _compared(configuration: dict[str, Any], folds: list[Fold]) -> dict[str, tuple[list[tuple[str, str]], list[Fold]]]:
    """The pairs of a set and its folds, by the name of their chunk; those that take long apart."""
    rows = {row for fold in folds for row in rows_of(configuration, fold)}
    pairs = [pair for pair in PAIRS if rows.issuperset(pair)]
    slow = [pair for pair in pairs if {*pair} & {*SLOW}]
    found = {"differences": ([pair for pair in pairs if pair not in slow], folds)}
    return found | ({"differences, slow": (slow, folds)} if slow else {})


def _differences(
    configuration: dict[str, Any],
    pairs: list[tuple[str, str]],
    folds: list[Fold],
    task: Any,
    done: Results,
    tick: Tick,
) -> dict[str, Any]:
    """Of the pairs in PCC@M and in MSE (standardised), means over folds and seeds, with intervals.

    A fold and seed is a training of its own; squares of tissue are resampled, the same for all arms.
    """
    names = list(dict.fromkeys(row for pair in pairs for row in pair))
    seeds = [one for fold in folds for one in _predicted(configuration, fold, names, task, done)]
    draws = draw(seeds, resamples=RESAMPLES)
    places = [(names.index(a), names.index(b)) for a, b in pairs]
    bounds = {metric: pairwise(*errors(draws[metric], places)) for metric in draws}
    tick()
    return {
        f"{a} - {b}": {metric.upper(): found[k]._asdict() for metric, found in bounds.items()}
        for k, (a, b) in enumerate(pairs)
    }


def _predicted(
    configuration: dict[str, Any], fold: Fold, names: list[str], task: Any, done: Results
) -> list[Predicted]:
    """By seed, what the arms predicted of the tested part; units are numbered apart by fold."""
    known: Task = task(fold)
    test, number = known.parts.test, list(VALIDATION).index(fold.name) if fold.set == "her2st" else 0
    unit, y = known.unit[test] + 100_000 * number, known.scaled[test].astype(float)
    settings = {row: done[_key(fold, row)]["settings"] for row in names}

    def of(seed: int) -> Array:
        return np.stack([_kept(configuration, fold, row, seed, task, settings[row]) for row in names])

    return [Predicted(of(seed), y, unit, np.zeros(len(y), np.intp)) for seed in configuration["seeds"]]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Scores by set and row, differences with their intervals."""
    rows = [
        row
        for name, sections in configuration["sets"].items()
        for row in _table(configuration, results, [Fold(name, section) for section in sections])
    ]
    if not rows:
        raise InputError("no part of the study is there yet: nothing to show")
    kinds = ("differences", "differences, slow")
    differences = {
        name: {pair: one for kind in kinds for pair, one in results.get(f"{name} | {kind}", {}).items()}
        for name in configuration["sets"]
    }
    notes = [
        f"{name}: PCC@M of {pair}: {found['PCC']['difference']:+.4f} "
        f"[{found['PCC']['low']:+.4f}, {found['PCC']['high']:+.4f}]"
        for name, pairs in differences.items()
        for pair, found in pairs.items()
    ]
    genes = {name: _genes(results, name) for name in configuration["sets"]}
    figures = {"folds": _figure(configuration, results)}
    summary = {"differences": differences, "genes": genes, "folds": _by_fold(configuration, results)}
    return Report(rows, summary, figures, notes, ("set", "row", "folds", *METRICS, "undefined", "seconds"))


def _table(configuration: dict[str, Any], results: Results, folds: list[Fold]) -> list[dict[str, Any]]:
    """Means over folds; the spread is that of seeds."""
    found = []
    for name in arms(configuration):
        there = [results[key] for fold in folds if (key := _key(fold, name)) in results]
        if not there:
            continue
        row: dict[str, Any] = {"set": folds[0].set, "row": name, "folds": len(there)}
        seeds = len(there[0]["runs"])
        for metric in METRICS:
            by_seed = [float(np.mean([one["runs"][s][metric] for one in there])) for s in range(seeds)]
            row[metric], row[f"{metric} sd"] = spread(by_seed) if seeds > 1 else (by_seed[0], None)
        row["undefined"] = float(np.mean([run["undefined"] for one in there for run in one["runs"]]))
        row["seconds"] = float(np.mean([one["seconds"] for one in there]))
        found.append(row)
    return found


def _by_fold(configuration: dict[str, Any], results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """PCC@M by set, row and fold, mean over seeds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, sections in configuration["sets"].items():
        for row in arms(configuration):
            there = {s: results[key] for s in sections if (key := _key(Fold(name, s), row)) in results}
            means = {s: float(np.mean([run["PCC@M"] for run in one["runs"]])) for s, one in there.items()}
            found.setdefault(name, {})[row] = means
    return found


def _genes(results: Results, name: str) -> list[dict[str, Any]]:
    """Genes of every fold of a set by their mean PCC under the last arm with exemplars: the best and the worst ten."""
    total: dict[str, list[float]] = {}
    for key, one in results.items():
        where, _, row = key.rpartition(" | ")
        if row == "ridge" and where.startswith(name) and f"{where} | spots, exemplars, ECA" in results:
            ours = results[f"{where} | spots, exemplars, ECA"]["by gene"]
            for gene, rho in zip(one["genes"], ours, strict=True):
                total.setdefault(gene, []).append(rho)
    most = max(map(len, total.values()), default=0)
    means = sorted(((float(np.mean(v)), gene) for gene, v in total.items() if len(v) == most), reverse=True)
    return [{"gene": gene, "PCC": rho} for rho, gene in [*means[:10], *means[-10:]]] if len(means) > 20 else []


def _figure(configuration: dict[str, Any], results: Results) -> Figure:
    """PCC@M of each row by fold."""
    panels = []
    for name, rows in _by_fold(configuration, results).items():
        sections = configuration["sets"][name]
        ticks = dict(zip(map(float, range(len(sections))), sections, strict=True))
        x = list(map(float, range(len(sections))))
        lines = [
            Line(label=row, x=x, y=[found.get(s) for s in sections], markers=True, joined=False)
            for row, found in rows.items()
            if found
        ]
        panels.append(Panel(title=name, x="tested", y="PCC@M", lines=lines, ticks=ticks))
    return Figure(title="Mean correlation over genes, by what is tested", panels=panels, columns=1, size=(9.0, 4.2))


PRESETS = ("quick", "cpu")
#: For the pages: what stands between the marks of that name.
BLOCKS = {"spatial": page.block}
