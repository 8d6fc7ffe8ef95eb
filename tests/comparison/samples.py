"""What the tests of this folder share."""

from __future__ import annotations

import numpy as np
import pandas as pd

from excora.application import compare
from excora.comparison import Comparison
from excora.comparison.result import Pair
from excora.data.dataset import Dataset
from excora.data.table import Table
from excora.settings import Settings

PEERS = ("ridge", "neighbours")
QUICK = Settings(model="pool", epochs=2, dim=8, heads=2, batch_size=16)


def table(n: int = 60, *, targets: int = 1, seed: int = 0, **roles) -> Dataset:
    """A linear target with little noise: ridge is far ahead of neighbours."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 3))
    target = x @ generator.normal(size=(3, targets)) + 0.1 * generator.normal(size=(n, targets))
    names = ("y",) if targets == 1 else tuple(f"y{k}" for k in range(targets))
    ids = np.array([f"s{k}" for k in range(n)], object)
    return Dataset(ids, names, target, Table(pd.DataFrame(x, columns=list("abc"))), **roles)


def quick(data: Dataset, **options) -> Comparison:
    return compare(data, **{"models": PEERS, "folds": 3, "seeds": 2, "progress": False} | options)


def pair(difference: float, low: float, high: float, verdict: str) -> Pair:
    return Pair(model="eca", against="softmax", difference=difference, low=low, high=high, verdict=verdict,
                mse_difference=0.0, mse_low=0.0, mse_high=0.0, mse_verdict="cannot tell")  # fmt: skip
