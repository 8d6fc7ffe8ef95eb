"""Behind a trained encoder, is it the pool or the scale of its logits? MOSI without its test part (some minutes).

``python -m checks.logit_scale [DATA] [SEEDS]`` fits the arms below to the training and validation clips of the official
split (``DATA/mosi``), in five folds of whole videos, with one layer in front, one rate and decay for all; the epoch is
chosen on the validation part of a fold. PCC is the mean over folds and seeds; the difference to softmax is paired by
fold. The official test clips are not read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from excora.data.splits import folds
from excora.settings import Settings
from excora.stats.correlation import pearson
from excora.training.evaluation import predictions
from excora_studies.gains.arms import fit_network, settings_of
from excora_studies.gains.tasks import FOLDS, TASKS, Sample

ARMS = ("softmax", "softmax, unscaled", "eca", "eca-paper", "eca-paper without SRA", "eca-paper without DATS")
RATE = {"learning_rate": 5e-4, "weight_decay": 1.0}


def score(sample: Sample, arm: str, seed: int) -> float:
    """PCC on the test part of a fold."""
    settings = settings_of(TASKS["MOSI tokens, with encoder"], arm) | RATE
    training, built = fit_network(sample, arm, settings, seed)
    setup = Settings(**settings, accelerator="cpu").settled(sample.dataset.kind, len(sample.split.train))
    found = predictions(training.network, built.features, sample.split.test, setup)
    return float(pearson(found, sample.dataset.target[sample.split.test])[0])


def main(data: Path, seeds: int) -> None:
    torch.set_num_threads(1)
    train, validation, _ = TASKS["MOSI tokens, frozen"].read(data, None, 0).split
    whole = TASKS["MOSI by video, frozen"].read(data, None, 0).dataset
    clips = whole.take(np.sort(np.concatenate([train, validation])))
    samples = [Sample(clips, part, np.arange(len(clips))) for part in folds(clips, folds=FOLDS, seed=0)]
    plain = None
    for arm in ARMS:
        found = np.array([np.mean([score(sample, arm, seed) for seed in range(seeds)]) for sample in samples])
        plain = found if plain is None else plain
        gain = found - plain
        print(
            f"{arm}: PCC {found.mean():.4f}; against softmax {gain.mean():+.4f} +- "
            f"{gain.std(ddof=1) / np.sqrt(FOLDS):.4f} (standard error over {FOLDS} folds)",
            flush=True,
        )


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Path(words[0] if words else "."), int(words[1]) if len(words) > 1 else 2)
