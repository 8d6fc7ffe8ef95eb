"""Do the elliptical metric and a memory help on real data? Each against its plain form, five seeds.

- ``metric``: the retrieval model's search by columns as they are, weighed by what they move (elliptical) and by learned
  weights (diagonal, the default). Random splits of small UCI tables, 64 / 16 / 20 %.
- ``memory``: the retrieval model in time order, all neighbours alike or old ones weighing less (``--memory``). Five
  blocks of rows, one after the other, are tested; the block before each is for validation, what is before that is
  learned from.
- ``attention``: word pieces of MOSI look at each other once (``ExtrapolativeAttention``, plain or elliptical) before
  they are pooled by softmax; official split, five seeds of the network.

Every arm has two trials a seed (:data:`CASES`), the validation part picks the trial and its epoch by PCC, and the
test part is looked at once. Intervals are those of :mod:`excora.stats.paired`, over samples (blocks of time, videos)
and trainings.

``python -m checks.companion_gains FILE [CASE ...]``, the files from EXCORA_DATA. FILE, a JSON, keeps what is done: the
same command goes on with what is missing, and prints the table of what is there.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from excora import ExtrapolativeAttention
from excora.data.dataset import Inputs
from excora.data.splits import Split
from excora.models.base import seeded
from excora.ragged import Ragged
from excora.settings import Settings
from excora.stats.correlation import Array, pearson
from excora.stats.paired import Predicted, draw, errors, pairwise
from excora.stats.units import sample_units
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import predictions
from excora_studies.gains.tasks import TASKS, Sample
from excora_studies.small_tables import SETS, find_folder

SEEDS = range(5)
#: Where test blocks begin in the order of time, and their size, in shares of the rows.
FIRST, BLOCK = 0.5, 0.1
NEIGHBOURS = tuple({"neighbours": k} for k in (12, 48))
RATES = tuple({"learning_rate": rate} for rate in (1e-3, 3e-3))
HOW: dict[str, Any] = {"criterion": "pcc", "epochs": 10, "patience": 10}


class Case(NamedTuple):
    """Samples of a seed, what all arms share, and by arm what it is and what is tried; the first is the plain form."""

    sample: Callable[[int], Sample]
    shared: dict[str, Any]
    arms: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...]]]


def _table(name: str) -> Callable[[int], Sample]:
    return lambda seed: TASKS[f"small table: {name}"].read(None, None, seed)


def _dated(name: str, column: str) -> Callable[[int], Sample]:
    """In time order: the block of a seed tested, the one before it for validation, all before that to learn from."""

    def read(seed: int) -> Sample:
        found, source = _table(name)(0), SETS[name]
        frame = source.read(find_folder(None) / source.file)
        date = pd.to_datetime(frame[column][frame[source.target].notna()])
        days = np.asarray((date - date.min()).dt.total_seconds(), np.float64) / 86_400
        order, n = np.argsort(days, kind="stable"), len(days)
        at = [round(n * (FIRST + BLOCK * (seed + k))) for k in (-1, 0, 1)]
        parts = Split(order[: at[0]], order[at[0] : at[1]], order[at[1] : at[2]])
        return Sample(dataclasses.replace(found.dataset, time=days), parts, sample_units(n, time=days))

    return read


def _mosi(_: int) -> Sample:
    """Units are videos."""
    with (find_folder(None).parent / "mosi" / "mosi_labels_transcripts.csv").open(encoding="utf-8") as text:
        video = [row["video_id"] for row in csv.DictReader(text)]
    found = TASKS["MOSI tokens, with encoder"].read(None, None, 0)
    return found._replace(unit=np.unique(video, return_inverse=True)[1].astype(np.intp))


def _memory(days: tuple[float, float]) -> dict[str, Any]:
    return {"none": ({}, NEIGHBOURS), "memory": ({"neighbours": 48}, tuple({"memory": d} for d in days))}


_METRICS = {name: ({"metric": name}, NEIGHBOURS) for name in ("plain", "elliptical", "diagonal")}
_RETRIEVAL = {"model": "retrieval", "correlation": "none", **HOW}
_POOL = {"model": "pool", "pool": "softmax", "layers": 1, "dim": 64, "start": "none", "batch_size": 64, **HOW}
CASES = {
    **{f"metric, {name}": Case(_table(name), _RETRIEVAL, _METRICS) for name in ("Auto MPG", "Real Estate")},
    "memory, Bike Sharing": Case(_dated("Bike Sharing", "dteday"), _RETRIEVAL, _memory((30.0, 180.0))),
    "memory, Garment": Case(_dated("Garment", "date"), _RETRIEVAL, _memory((5.0, 20.0))),
    "attention, MOSI tokens": Case(
        _mosi, _POOL, {name: ({"attention": name}, RATES) for name in ("plain", "elliptical")}
    ),
}


class Looking(nn.Module):
    """What an encoder gives, after its elements have looked at each other once: h + attention(LayerNorm(h))."""

    def __init__(self, encoder: nn.Module, metric: str) -> None:
        super().__init__()
        dim: Any = encoder.width
        self.encoder, self.norm = encoder, nn.LayerNorm(dim)
        self.attention = ExtrapolativeAttention(dim, 4, batch_first=True, metric=metric)

    def forward(self, inputs: Inputs) -> Ragged:
        """Ragged, as the elements come."""
        found = self.encoder(inputs)
        h, mask = found.pad() if isinstance(found, Ragged) else (found, torch.ones(found.shape[:2], dtype=torch.bool))
        x: Tensor = self.norm(h)
        h = h + self.attention(x, x, x, key_padding_mask=~mask, need_weights=False)[0]
        return Ragged(h[mask], mask.sum(1))


def fit(sample: Sample, asked: dict[str, Any], seed: int) -> tuple[float, Array]:
    """The best validation PCC, and predictions of the test part, (n,), standardised, by the epoch that has it."""
    asked = dict(asked)
    metric = asked.pop("attention", None)
    setup = Settings(**asked, seed=seed, accelerator="cpu").settled(sample.dataset.kind, len(sample.split.train))
    network, features, target, *_ = build(sample.dataset, sample.split.train, setup, validation=sample.split.validation)
    if metric is not None:
        with seeded(seed):
            network.encoder = Looking(network.encoder, metric)  # type: ignore[arg-type]
    found = train(network, features, target, sample.split, setup.recipe, setup.machine, progress=False)
    reached = max([row["validation_pcc"] for row in found.rows] + [(found.start or {}).get("validation_pcc", -1.0)])
    return reached, predictions(found.network, features, sample.split.test, setup)[:, 0]


def run(case: Case, arm: str, seed: int) -> dict[str, Any]:
    """What validation picked of an arm's trials, and its predictions of the test part."""
    begun, sample = time.process_time(), case.sample(seed)
    base, tried = case.arms[arm]
    trials = [(*fit(sample, case.shared | base | one, seed), one) for one in tried]
    reached, prediction, picked = max(trials, key=lambda trial: trial[0])
    label = sample.dataset.target[sample.split.test]  # type: ignore[index]
    return {
        "test": float(pearson(prediction[:, None], label)[0]), "validation": reached, "picked": picked,
        "prediction": np.round(prediction, 6).tolist(), "CPU s": time.process_time() - begun,
    }  # fmt: skip


def lines(done: dict[str, Any]) -> list[str]:
    """Test PCC of each arm, mean and deviation over seeds, and its difference from the plain form."""
    found = ["| case | arm | test PCC | minus the plain form | picked |", "|---|---|---|---|---|"]
    for name, case in CASES.items():
        seeds = [seed for seed in SEEDS if all(f"{name} | {arm} | {seed}" in done for arm in case.arms)]
        if not seeds:
            continue
        predicted = []
        for seed in seeds:
            sample, rows = case.sample(seed), [done[f"{name} | {arm} | {seed}"]["prediction"] for arm in case.arms]
            test = sample.split.test
            label = np.asarray(sample.dataset.target)[test]
            predicted.append(
                Predicted(np.array(rows)[:, :, None], label, sample.unit[test], np.zeros(len(test), np.intp))
            )
        pairs = [(k, 0) for k in range(1, len(case.arms))]
        bounds = [None, *pairwise(*errors(draw(predicted)["pcc"], pairs))]
        for arm, bound in zip(case.arms, bounds, strict=True):
            runs = [done[f"{name} | {arm} | {seed}"] for seed in seeds]
            pcc = [one["test"] for one in runs]
            shown = "" if bound is None else f"{bound.difference:+.4f} [{bound.low:+.4f}, {bound.high:+.4f}]"
            picked = ", ".join(f"{value:g}" for one in runs for value in one["picked"].values())
            spread = np.std(pcc, ddof=1) if len(pcc) > 1 else 0.0
            found.append(f"| {name} | {arm} | {np.mean(pcc):.4f} ± {spread:.4f} | {shown} | {picked} |")
    return found


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    asked = parser.parse_args()
    for seed in SEEDS:
        for name in asked.cases:
            for arm in CASES[name].arms:
                done = json.loads(asked.file.read_text()) if asked.file.exists() else {}
                key = f"{name} | {arm} | {seed}"
                if key not in done:
                    found = run(CASES[name], arm, seed)
                    done = json.loads(asked.file.read_text()) if asked.file.exists() else {}
                    asked.file.write_text(json.dumps(done | {key: found}) + "\n")
                    print(key, {what: found[what] for what in ("test", "validation", "picked", "CPU s")}, flush=True)
    print("\n".join(lines(json.loads(asked.file.read_text()))))


if __name__ == "__main__":
    main()
