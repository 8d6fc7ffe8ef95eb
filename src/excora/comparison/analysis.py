"""From the runs to the result: predictions pooled by seed, scores, paired differences, what to be careful about."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.comparison.entrants import Entrant
from excora.comparison.records import Record
from excora.comparison.result import MARGIN, Comparison, Headline, Pair, Row, conclude
from excora.data.dataset import Dataset, Index
from excora.data.splits import Split
from excora.stats import paired
from excora.stats.correlation import Array
from excora.stats.family import judge
from excora.stats.intervals import FEW_GROUPS
from excora.stats.units import sample_units
from excora.storage import plain

FEW_SAMPLES = 400
FEW_TRAININGS = 3


class OutOfFold:
    """Out-of-fold predictions: one a sample for each seed and model, of the samples that every seed has tested."""

    def __init__(self, dataset: Dataset, entrants: Sequence[Entrant], folds: dict[int, list[Split]]) -> None:
        assert dataset.target is not None
        self.models, self.seeds = [one.name for one in entrants], list(folds)
        self.labels = {one.name: one.label for one in entrants}
        self.peers = {one.name for one in entrants if one.peer is not None}
        self.folds = folds
        self.fold = np.zeros((len(folds), len(dataset)), np.intp)  # of each sample, by seed
        for place, splits in enumerate(folds.values()):
            for number, split in enumerate(splits):
                self.fold[place, split.test] = number
        shape = (len(self.seeds), len(self.models), *dataset.target.shape)
        self.prediction = np.full(shape, np.nan)

    def add(self, record: Record) -> None:
        """Put the predictions of a run in their place."""
        place = self.seeds.index(record.seed), self.models.index(record.model)
        self.prediction[place][self.folds[record.seed][record.fold].test] = record.prediction

    @property
    def index(self) -> Index:
        """The samples that have every prediction."""
        return np.flatnonzero(~np.isnan(self.prediction).any((0, 1, 3)))


def target_scale(target: Array) -> Array:
    """What errors are measured in, (targets,): one target's own unit; of several, the standard deviation of each."""
    return np.ones(1) if target.shape[1] == 1 else np.asarray(np.nanstd(target, 0))


def analyse(
    dataset: Dataset,
    pool: OutOfFold,
    records: Sequence[Record],
    setup: dict[str, Any],
    rerun: str,
    *,
    margin: float = MARGIN,
) -> Comparison:
    """All figures, and what they mean."""
    assert dataset.target is not None
    index = pool.index
    scale = target_scale(dataset.target)
    unit, noun = _units(dataset, index)
    prediction, target = pool.prediction[:, :, index] / scale, dataset.target[index] / scale
    seeds = [paired.Predicted(one, target, unit, fold[index]) for one, fold in zip(prediction, pool.fold, strict=True)]
    draws = paired.draw(seeds)
    figures = {name: draws[name].score.mean(0) for name in ("pcc", "mse")}
    figures["mae"] = np.nanmean(np.abs(prediction - target), (0, 2)).mean(1)
    order = np.argsort(-figures["pcc"], kind="stable").tolist()
    rows = [_row(pool.models[k], pool.labels, records, {n: float(v[k]) for n, v in figures.items()}) for k in order]
    pairs = _pairs(pool.models, order, draws, margin)
    setup = setup | {"samples": len(index), "resampled": noun, "units": int(unit.max()) + 1, "margin": margin}
    setup["resamples"] = paired.RESAMPLES
    headline = _headline([row.model for row in rows], pairs)
    found = Comparison(
        reference=rows[0].model, rows=rows, pairs=pairs, headline=headline, sentence="",
        notes=_notes(dataset, pool, records, setup), setup=setup, rerun=rerun,
    )  # fmt: skip
    eca, softmax = (_with_pool(name, pool.models) for name in ("eca", "softmax"))
    asked = None if eca is None or softmax is None or headline.best in (eca, softmax) else found.pair(eca, softmax)
    return dataclasses.replace(found, sentence=conclude(pool.labels, headline, rows[0].pcc, margin, asked))


def _with_pool(pool: str, models: Sequence[str]) -> str | None:
    """The first model that has this pool."""
    return next((name for name in models if name.rpartition(":")[2] == pool), None)


def _units(dataset: Dataset, index: Index) -> tuple[NDArray[np.intp], str]:
    if dataset.group is not None:
        codes = np.unique(dataset.group.astype(str), return_inverse=True)[1]
        return sample_units(len(index), group=codes[index]), "groups"
    if dataset.time is not None:
        return sample_units(len(index), time=dataset.time[index]), "time blocks"
    return sample_units(len(index)), "samples"


def _row(model: str, labels: dict[str, str], records: Sequence[Record], figures: dict[str, float]) -> Row:
    mine = sorted((r for r in records if r.model == model), key=lambda r: (r.seed, r.fold))
    runs: list[dict[str, Any]] = [
        {"seed": r.seed, "fold": r.fold, **plain(r.scores._asdict()), "seconds": r.seconds, "details": r.details}
        for r in mine
    ]
    return Row(
        model=model, label=labels[model], **figures, seconds=statistics.fmean(r.seconds for r in mine), runs=runs
    )


def _pairs(models: list[str], order: list[int], draws: dict[str, paired.Draws], margin: float) -> list[Pair]:
    """Every pair, the lower against the higher PCC; all are judged at once."""
    chosen = [(low, high) for place, high in enumerate(order) for low in order[place + 1 :]]
    pcc, mse = (judge(draws[name], chosen, correlation=name == "pcc") for name in ("pcc", "mse"))
    return [Pair.of(models[a], models[b], p, m, margin) for (a, b), p, m in zip(chosen, pcc, mse, strict=True)]


def _headline(models: list[str], pairs: list[Pair]) -> Headline:
    """``models``: the best first."""
    words = {pair.model: pair.verdict for pair in pairs if pair.against == models[0]}
    return Headline(
        best=models[0],
        better_than=[name for name, word in words.items() if word == "worse"],
        tied_with=[name for name, word in words.items() if word != "worse"],
        equal_to=[name for name, word in words.items() if word == "no difference"],
    )


def _notes(dataset: Dataset, pool: OutOfFold, records: Sequence[Record], setup: dict[str, Any]) -> list[str]:
    notes = list(dataset.notes)
    folds, units, noun, samples = setup["folds"], setup["units"], setup["resampled"], setup["samples"]
    if len(pool.seeds) == 1:
        notes.append(
            f"one seed: what the luck of a training does is known from {folds} trainings a model only, so intervals "
            f"are {'wide' if folds > FEW_TRAININGS else 'very wide'}; 3 seeds narrow them"
        )
    if noun != "samples" and units < FEW_GROUPS:
        notes.append(f"only {units} {noun} are resampled: intervals are rough")
    if samples < FEW_SAMPLES:
        notes.append(
            f"{samples} samples: the intervals hold for models trained on these data; with so few samples, training on "
            f"other data of the same kind may change the order"
        )
    if dataset.weight is not None:
        notes.append("weights count in training and tuning; the scores count every test sample once")
    if len(dataset.targets) > 1:
        notes.append("several targets: MSE and MAE are in units of each target's variance and standard deviation")
    if dataset.time is not None and dataset.group is None:
        notes.append("time-ordered: every sample is predicted from earlier ones, so the first stretch is not predicted")
    diverged = [r.model for r in records if r.details.get("stopped") == "diverged"]
    for model in dict.fromkeys(diverged):
        notes.append(
            f"{pool.labels[model]}: training diverged in {diverged.count(model)} runs, which count with their best "
            f"epoch, or as predicting the mean if they had none"
        )
    return notes
