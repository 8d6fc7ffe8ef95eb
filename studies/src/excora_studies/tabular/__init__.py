"""Study ``tabular`` (Table 1): Excora's tabular models and what users would pick instead, on three UCI sets.

sets ─► split by seed ─► one matrix ─► trials on validation (one seed) ─► fit on both parts ─► test, once
                             rows: peers, networks                     └─► table: scores, pairs, figures
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.estimators.ensemble import SEEDS, pick
from excora.stats.units import sample_units
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.tabular import page, sets
from excora_studies.tabular.networks import declared_rows, ft_rows, retrieval_rows
from excora_studies.tabular.peers import LOG_RIDGE, peers
from excora_studies.tabular.rows import TRIALS, Part, Parts, Row
from excora_studies.tabular.scores import pack, pack_codes, scores
from excora_studies.tabular.table import make

#: For the pages: what stands between the marks of that name.
BLOCKS = page.BLOCKS
PRESETS = ("quick", "cpu", "paper")
TUNING_SEED = 0
#: Where the variants of the FT-Transformer run; elsewhere it has the rows of EVERYWHERE, on our variant of a set none.
ABLATIONS = (("Appliances", "random"), ("Superconductivity", "random"))
ONCE = "FT + ECA (paper, literal dispersion)"  #: on the first of them alone
EVERYWHERE = ("FT-Transformer", "FT + ECA (ours)")


class Sizes(NamedTuple):
    """What a preset decides."""

    samples: int | None  #: rows of a set, the first ones; None: all
    dim: int
    heads: int
    blocks: int
    epochs: int  #: of the FT-Transformer
    neighbours_epochs: int  #: of attention over neighbours
    trees: int
    tabm_epochs: int
    trials: int
    budget: float  #: CPU seconds of tuning after which no new trial begins
    members: int  #: of the Excora row


SIZES = {
    "quick": Sizes(600, 16, 2, 1, 2, 2, 10, 2, 2, 5.0, 2),
    "cpu": Sizes(None, 64, 2, 2, 30, 12, 300, 60, TRIALS, 120.0, 4),
    "paper": Sizes(None, 256, 8, 3, 100, 30, 300, 200, TRIALS, 36_000.0, 8),
}


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on but the rows' own spaces, which stand with their trials."""
    places = [(name, split) for name, source in sets.SETS.items() for split in source.splits]
    return {
        "preset": preset,
        "sizes": SIZES[preset]._asdict(),
        "seeds": list(range(seeds or (1 if preset == "quick" else 3))),
        "tuning_seed": TUNING_SEED,
        "hold_out": sets.HOLD_OUT,
        "rows": [(*place, row) for place in places for row in rows_of(*place, SIZES[preset])],
    }


def all_rows(sizes: Sizes, split: str) -> dict[str, Row]:
    """Every row for this kind of split, by name: peers first."""
    ft = ft_rows(dim=sizes.dim, heads=sizes.heads, blocks=sizes.blocks, epochs=sizes.epochs)
    ours = retrieval_rows(epochs=sizes.neighbours_epochs)
    declared = declared_rows(ours, split, members=sizes.members)
    return {**peers(trees=sizes.trees, epochs=sizes.tabm_epochs), **ours, **declared, **ft}


def rows_of(name: str, split: str, sizes: Sizes) -> list[str]:
    """The names of the rows of a set and split; only the first set's target has a long tail and no logarithm yet."""
    rows = [row for row in all_rows(sizes, split) if row != LOG_RIDGE or name.startswith("Appliances")]
    if (name, split) in ABLATIONS:
        return [row for row in rows if row != ONCE or (name, split) == ABLATIONS[0]]
    network = () if name == "Appliances + clock" else EVERYWHERE
    return [row for row in rows if not row.startswith("FT") or row in network]


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """For each set, split and row: its trials, then a fit for every seed; what is compared with others comes first."""
    sizes = Sizes(**configuration["sizes"])
    found: list[Chunk] = []
    load = functools.lru_cache(2)(lambda name: sets.load(name, data, sizes.samples))
    places = dict.fromkeys((name, split) for name, split, _ in configuration["rows"])
    found += [_test_part(*place, seed, load) for place in places for seed in configuration["seeds"]]
    for place in sorted(configuration["rows"], key=lambda place: place[2].startswith("FT")):
        found += _chunks(tuple(place), configuration, sizes, load)
    return found


def key(name: str, split: str, row: str, part: str) -> str:
    """The name of a chunk."""
    return f"{name} | {split} | {row} | {part}"


def table_of(chunk: str) -> str:
    """The table that a chunk belongs to: its set and split."""
    return " ".join(chunk.split(" | ")[:2])


def _test_part(name: str, split: str, seed: int, load: Any) -> Chunk:
    """Target, its scale and units of the test part: what intervals and means of rows need."""

    def compute(results: Results, tick: Tick) -> Any:  # noqa: ARG001
        data = parts(load(name), split, seed)
        tick()
        return {
            "fingerprint": data.fingerprint,
            "target": pack(data.test.y),
            "std": data.test.scale[1],
            "unit": pack_codes(data.unit[data.split.test]),
        }

    return Chunk(key(name, split, "test part", f"seed {seed}"), 1, compute)


def _chunks(place: tuple[str, str, str], configuration: dict[str, Any], sizes: Sizes, load: Any) -> list[Chunk]:
    name, split, own = place
    rows = all_rows(sizes, split)
    row, tuned = rows[own], key(name, split, rows[own].tuned_as or own, "tuning")

    def tune(results: Results, tick: Tick) -> Any:  # noqa: ARG001
        data = parts(load(name), split, TUNING_SEED)
        found = row.tune(data.train, data.validation, trials=sizes.trials, budget=sizes.budget, seed=TUNING_SEED)
        predictions = [trial.prediction for trial in found]
        if row.listed:  # of these several are averaged
            predictions.append(row.again(found[0], data.train, data.validation, TUNING_SEED + SEEDS).prediction)
        chosen = [number % len(found) for number in pick(predictions, data.validation.y, sizes.members)]
        tick()
        fields = ("parameters", "mse", "pcc", "seconds")
        return {
            "fingerprint": data.fingerprint,
            "trials": [{field: getattr(trial, field) for field in fields} for trial in found],
            "chosen": [found[number].parameters for number in chosen],
        }

    def fit(seed: int, results: Results, tick: Tick) -> Any:
        if row.tuned and tuned not in results:
            raise InputError(f"the settings of {own!r} come from the part {tuned!r}: compute that first")
        data, chosen = parts(load(name), split, seed), [row.defaults]
        if row.tuned:
            chosen = results[tuned]["chosen"] if row.members > 1 else [results[tuned]["trials"][0]["parameters"]]
        begun = time.process_time()
        prediction = row.predict(chosen, data.both, data.test.x, seed)
        seconds = time.process_time() - begun
        tick()
        mean, std = data.test.scale
        found = scores(prediction * std + mean, data.test.y * std + mean)
        return {"fingerprint": data.fingerprint, **found, "seconds": seconds, "prediction": pack(prediction)}

    made = [Chunk(tuned, 1, tune)] if row.tuned and not row.tuned_as else []
    return made + [Chunk(key(*place, f"seed {s}"), 1, functools.partial(fit, s)) for s in configuration["seeds"]]


def parts(dataset: Dataset, split: str, seed: int) -> Parts:
    """The one matrix that every row of the table reads."""
    made = sets.make_split(dataset, split, seed)
    prepared = Preparation.fit(dataset, made.train)
    assert dataset.target is not None
    y = prepared.scale(dataset.target).astype(np.float64)[:, 0]
    group = None if dataset.group is None else np.unique(dataset.group, return_inverse=True)[1]
    unit = sample_units(len(y), group=group, time=dataset.time)
    unit = sample_units(int(unit.max()) + 1)[unit]  # at most 2,000: a resample is a count for each
    whole = Part(prepared.matrix(dataset), y, group, dataset.time, (prepared.mean[0], prepared.std[0]))
    return Parts(whole, made, sets.fingerprint(dataset, made), unit)


def report(configuration: dict[str, Any], results: Results) -> Report:
    """The table of what is there."""
    return make(configuration, results)
