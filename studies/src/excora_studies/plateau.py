"""Study ``plateau`` (Fig 7): MSE still falling after PCC is flat, on 8 small UCI sets, with softmax and with ECA.

A small :class:`FTTransformer`. ECA is the same model with ``attention="eca"``, trained with DNPL in place of the PCC
loss; both start from the same weights and see the same batches. Whether PCC is flat while MSE falls is for
:func:`detect_plateau` to say, as one watches the run: on the curves of the training rows and on those of the validation
rows.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.splits import Split
from excora.data.table import TableFeatures, TableSpec
from excora.settings import Machine, Recipe
from excora.stats.correlation import pearson
from excora.training import train
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table, with_spread
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.small_tables import SETS, find_folder, load
from excora_studies.synthetic import spread
from excora_studies.tabular.networks import ft_transformer, predict
from excora_studies.watch import watch

#: By name the read-out's attention and the correlation loss.
VARIANTS = {"softmax": ("softmax", "pearson"), "ECA": ("eca", "dnpl")}
PARTS = ("train", "validation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """Model and training."""

    epochs: int = 100
    batch: int = 64
    rate: float = 1e-3
    dim: int = 32
    heads: int = 4
    blocks: int = 2
    dropout: float = 0.1  # of the attention and of the feed-forwards
    weight: float = 0.5

    def options(self, attention: str) -> dict[str, Any]:
        """Of the network."""
        rates = {"attention_dropout": self.dropout, "feedforward_dropout": self.dropout}
        return {"dim": self.dim, "blocks": self.blocks, "heads": self.heads, "attention": attention} | rates

    def recipe(self, correlation: str, seed: int) -> Recipe:
        """Of the training: AdamW without decay, which is Adam, at one step size; the epoch by validation PCC."""
        return Recipe(
            correlation=correlation, correlation_weight=self.weight, epochs=self.epochs, patience=self.epochs,
            criterion="pcc", batch_size=self.batch, learning_rate=self.rate, weight_decay=0.0, seed=seed,
        )  # fmt: skip


class Rows(NamedTuple):
    """Rows of a table, numbers and target (n, 1) standardised by the figures of the training rows, and their parts."""

    spec: TableSpec
    features: TableFeatures
    target: NDArray[np.float32]
    split: Split


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:
    """Everything that the numbers depend on, but for the folder of the files."""
    folder = find_folder(data)
    quick = preset == "quick"
    setup = Setup(epochs=14, dim=8, heads=2, blocks=1) if quick else Setup()
    names = ["Servo"] if quick else list(SETS)
    sizes = {name: len(load(name, folder)[2]) for name in names}
    return {"sets": sizes, "seeds": list(range(seeds or (1 if quick else 3))), "setup": dataclasses.asdict(setup)}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk for each set and seed."""
    setup, folder = Setup(**configuration["setup"]), find_folder(data)

    def one(name: str, seed: int) -> Chunk:
        return Chunk(f"{name}, seed {seed}", len(VARIANTS), lambda _, tick: _compare(name, seed, setup, folder, tick))

    return [one(name, seed) for name in configuration["sets"] for seed in configuration["seeds"]]


def parts(rows: int, seed: int) -> Split:
    """Row numbers of the parts: 70 % training, 15 % validation, 15 % test, at random.

    >>> [len(part) for part in parts(20, 0)]
    [14, 3, 3]
    """
    order = np.random.default_rng(seed).permutation(rows)
    return Split(*np.split(order, [round(0.7 * rows), round(0.85 * rows)]))


def prepare(name: str, seed: int, folder: Path) -> Rows:
    """The rows of a set, split and standardised."""
    numeric, codes, target = (part.to_numpy() for part in load(name, folder))
    split = parts(len(target), seed)
    missing, seen, label = np.isnan(numeric), numeric[split.train], target[split.train]
    known = np.maximum((~np.isnan(seen)).sum(0), 1)
    mean = np.nansum(seen, 0) / known
    deviation = np.sqrt(np.nansum(np.square(seen - mean), 0) / known)
    numeric = np.where(missing, 0.0, (numeric - mean) / np.where(deviation > 0, deviation, 1.0))
    features = TableFeatures(numeric.astype(np.float32), missing, codes)
    sizes = tuple(int(size) for size in codes.max(0, initial=0) + 1)
    y = ((target - label.mean()) / label.std()).astype(np.float32)
    return Rows(TableSpec(targets=1, numeric=numeric.shape[1], categories=sizes), features, y[:, None], split)


def _compare(name: str, seed: int, setup: Setup, folder: Path, tick: Tick) -> dict[str, Any]:
    rows = prepare(name, seed, folder)
    return {variant: _fit(variant, rows, seed, setup, tick) for variant in VARIANTS}


def _fit(variant: str, rows: Rows, seed: int, setup: Setup, tick: Tick) -> dict[str, Any]:
    """Train one model; its curves, what the detector says of them, and the test scores of the chosen epoch.

    The curve of the training rows is the monitor's: the predictions of an epoch's own steps, with dropout.
    """
    attention, correlation = VARIANTS[variant]
    network = ft_transformer(rows.spec, setup.options(attention), seed)
    recipe = setup.recipe(correlation, seed)
    run = train(
        network, rows.features, rows.target, rows.split, recipe, Machine(accelerator="cpu"), progress=False
    )  # fmt: skip
    curves: dict[str, list[Any]] = {
        f"train_{metric}": [record[metric] for record in run.monitor.records] for metric in ("pcc", "mse")
    }
    curves |= {name: [row[name] for row in run.rows] for name in ("validation_pcc", "validation_mse")}
    prediction, label = predict(run.network, rows.features, rows.split.test), rows.target[rows.split.test, 0]
    scores = {"pcc": pearson(prediction, label).item(), "mse": float(np.square(prediction - label).mean())}
    watched = {part: watch(curves[f"{part}_pcc"], curves[f"{part}_mse"]) for part in PARTS}
    tick()
    return {"epoch": run.best_epoch + 1, **scores, "watch": watched, "curves": curves}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """How often the rule finds a plateau, when, and how the two variants end."""
    rows = []
    for name, count in configuration["sets"].items():
        for variant in VARIANTS:
            runs = [results[f"{name}, seed {seed}"][variant] for seed in configuration["seeds"]]
            (pcc, sd), (mse, mse_sd) = spread([run["pcc"] for run in runs]), spread([run["mse"] for run in runs])
            row: dict[str, Any] = {"set": name, "rows": count, "variant": variant}
            for part in PARTS:
                found = [run["watch"][part] for run in runs if run["watch"][part]["first"] is not None]
                row[f"plateau ({part})"] = f"{len(found)} of {len(runs)}"
                for label, key in _COLUMNS.items():
                    values = [float(one[key]) for one in found]
                    row[f"{label} ({part})"] = statistics.fmean(values) if found else None
            row |= {"test PCC": pcc, "test PCC sd": sd, "test MSE": mse, "test MSE sd": mse_sd}
            rows.append(row | {"paper": "plateau (curves only)"})
    summary = _summary(configuration, results, rows)
    notes = [
        f"plateaus on training rows: softmax {summary['softmax, train']}, ECA {summary['ECA, train']} of "
        f"{summary['runs']} runs; "
        f"on validation rows: {summary['softmax, validation']} and {summary['ECA, validation']}",
        f"test PCC of ECA - softmax: {summary['ECA - softmax test PCC']:+.4f} "
        f"(sd over runs {summary['sd over runs']:.4f})",
    ]
    columns = ["set", "variant", "plateau (train)", "PCC flat from (train)", "MSE after % (train)"]
    columns += ["plateau (validation)", "test PCC", "test MSE", "paper"]
    return Report(rows, summary, {"plateau": _figure(configuration, results)}, notes, columns)


def _summary(configuration: dict[str, Any], results: Results, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of runs by what the rule says, and the paired difference of the test PCC."""
    summary: dict[str, Any] = {
        f"{variant}, {part}": sum(int(row[f"plateau ({part})"].split()[0]) for row in rows if row["variant"] == variant)
        for variant in VARIANTS
        for part in PARTS
    }
    summary["final"] = {
        f"{variant}, {part}": dict(Counter(chunk[variant]["watch"][part]["final"] for chunk in results.values()))
        for variant in VARIANTS
        for part in PARTS
    }
    total = len(configuration["sets"]) * len(configuration["seeds"])
    summary |= {"runs": total}
    paired = [
        results[key]["ECA"]["pcc"] - results[key]["softmax"]["pcc"]
        for key in (f"{name}, seed {seed}" for name in configuration["sets"] for seed in configuration["seeds"])
    ]
    summary |= {"ECA - softmax test PCC": spread(paired)[0], "sd over runs": spread(paired)[1]}
    summary |= {"runs with ECA above softmax": sum(one > 0 for one in paired)}
    return summary


_COLUMNS = {
    "PCC flat from": "flat_from",
    "noticed at": "first",
    "PCC after": "pcc_after",
    "MSE after %": "mse_after_percent",
}


def _figure(configuration: dict[str, Any], results: Results) -> Figure:
    epochs = list(range(1, configuration["setup"]["epochs"] + 1))
    panels = []
    for name in configuration["sets"]:
        for part in PARTS:
            lines = []
            for variant in VARIANTS:
                runs = [results[f"{name}, seed {seed}"][variant]["curves"] for seed in configuration["seeds"]]
                for metric in ("pcc", "mse"):
                    middle = [statistics.fmean(x) for x in zip(*(run[f"{part}_{metric}"] for run in runs), strict=True)]
                    lines.append(Line(label=f"{variant} {metric.upper()}", x=epochs, y=middle, dashed=metric == "mse"))
            panels.append(Panel(title=f"{name}, {part}", x="epoch", y="PCC, MSE", lines=lines))
    return Figure(title="PCC and MSE by epoch, mean over seeds", panels=panels, columns=4)


def _block(contents: Contents) -> str:
    """The eight sets, and the totals."""
    rows = [
        [
            row["set"],
            row["variant"],
            row["plateau (train)"],
            number(row["PCC flat from (train)"], 0),
            number(row["PCC after (train)"], 3),
            number(row["MSE after % (train)"], 0),
            row["plateau (validation)"],
            number(row["MSE after % (validation)"], 0),
            with_spread(row, "test PCC", 3),
            with_spread(row, "test MSE", 3),
        ]
        for row in contents["plateau"]["table"]
    ]
    header = ("set", "variant", "plateau, training", "flat from epoch", "PCC after", "MSE after, %")
    total = contents["plateau"]["summary"]
    line = (
        f"Runs with a plateau, of {total['runs']}: training rows softmax {total['softmax, train']}, ECA "
        f"{total['ECA, train']}; validation rows softmax {total['softmax, validation']}, ECA "
        f"{total['ECA, validation']}. Test PCC of ECA − softmax: {total['ECA - softmax test PCC']:+.4f} (standard "
        f"deviation over runs {total['sd over runs']:.4f}), above in {total['runs with ECA above softmax']} of "
        f"{total['runs']} runs: {_verdict(total['ECA - softmax test PCC'], total['sd over runs'], total['runs'])}."
    )
    states = ("improving", "plateau", "converged", "worsening", "too short")
    final = [[key, *(str(counts.get(state, 0)) for state in states)] for key, counts in total["final"].items()]
    more = ("plateau, validation", "MSE after, %", "test PCC", "test MSE")
    ends = f"What the rule says of the whole run, in numbers of runs:\n\n{table(('rows', *states), final)}"
    return f"{table((*header, *more), rows)}\n\n{line}\n\n{ends}"


def _verdict(mean: float, deviation: float, runs: int) -> str:
    """By two standard errors."""
    error = deviation / runs**0.5
    if abs(mean) <= 2 * error:
        return f"**no difference that shows** (standard error {error:.4f})"
    return f"**ECA {'above' if mean > 0 else 'below'} softmax** (standard error {error:.4f})"


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "plateau": _block,
}
