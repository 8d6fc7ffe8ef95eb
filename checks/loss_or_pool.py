"""Attention over neighbours: does a gain come from the pool or from the loss? On validation (8 CPU minutes a set).

Every pool with every loss (MSE alone, with the plain Pearson loss, with its dispersion-normalised form), else with the
settings that validation picks for softmax (docs/tabular.md), trained on the training part of the random split of
seed 0 with two seeds of the network. On its validation part: PCC and MSE / variance, mean and standard deviation over
the seeds, and what the monitor says.

``python -m checks.loss_or_pool [SET ...]``, the files from EXCORA_DATA; no test part is read.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import torch

from checks.hosts import CASES, fitted, look, pcc
from excora.estimators.ensemble import COMMON, listed
from excora.settings import Settings
from excora_studies.tabular import SIZES
from excora_studies.tabular.sets import load, make_split

POOLS, LOSSES, SEEDS = ("softmax", "eca"), ("none", "pearson", "dnpl"), (0, 1)


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ("Appliances",):
        split = make_split(load(name, None), "random", 0)
        trial: dict[str, Any] = COMMON | listed(SIZES["cpu"].neighbours_epochs)[CASES[name][0]]
        for pool in POOLS:
            for loss in LOSSES:
                scores, verdicts = [], []
                for seed in SEEDS:
                    settings = Settings(**trial | {"pool": pool, "correlation": loss, "seed": seed}, accelerator="cpu")
                    trained, features, y = fitted(name, split, settings)
                    prediction = look(trained.network, features, split.validation)["prediction"]
                    scores.append((pcc(prediction, y), float((prediction - y).square().mean() / y.var())))
                    verdicts.append(trained.verdict().name)
                said = ", ".join(f"{what} ({n} of {len(SEEDS)})" for what, n in Counter(verdicts).items())
                of = zip(np.mean(scores, 0), np.std(scores, 0, ddof=1), strict=True)
                shown = " | ".join(f"{mean:.4f} ± {sd:.4f}" for mean, sd in of)
                print(f"| {name} | {pool} | {loss} | {shown} | {said} |", flush=True)


if __name__ == "__main__":
    main()
