"""A table with columns of every kind, and what is wrong with a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from excora.data.dataset import Dataset
from excora.data.table import Table
from excora.data.validation import validate
from excora.errors import DataError

N = 40

TRAIN = np.arange(30)


def table(frame, n=None, target=None) -> Dataset:
    n = len(frame) if n is None else n
    target = np.stack([np.arange(n) ** 2.0, 7 - np.arange(n)], 1) if target is None else target
    return Dataset(np.arange(n).astype(str).astype(object), ("y", "z"), target, content=Table(frame))


def frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    when = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(37.25 * np.arange(N), unit="h"))
    return pd.DataFrame(
        {
            "x": np.where(np.arange(N) % 5, 1e4 + generator.standard_normal(N), np.nan),
            "few": np.arange(N) % 3,
            "colour": pd.Series(["red", "blue", None, "red"] * (N // 4)),
            "flag": np.arange(N) % 2 == 0,
            "when": when.dt.strftime("%Y-%m-%d %H:%M"),
            "same": 1.0,
            "empty": np.nan,
            "name": [f"n{k}" for k in range(N)],
        }
    )


def problems(path, **roles) -> list[str]:
    """What is wrong with a file, without its name."""
    with pytest.raises(DataError) as caught:
        validate(path, **roles)
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert all("\n" not in problem for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]
