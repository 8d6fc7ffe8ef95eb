"""Columns: what each kind becomes, as the training rows show it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from data.made import TRAIN, frame, table
from excora.data.preparation import Preparation
from excora.data.table.columns import MOST_CATEGORIES, Column, learn


def test_dates_become_days_and_circles():
    data = table(frame())
    column = next(c for c in Preparation.fit(data, TRAIN).content.columns if c.name == "when")
    values = column.values(data.content.frame["when"])
    when = pd.to_datetime(data.content.frame["when"])
    turn = {
        "time of day": (when.dt.hour * 60 + when.dt.minute) / 1440,
        "weekday": when.dt.dayofweek / 7,
        "day of year": (when.dt.dayofyear - 1) / 365.25,
    }
    wanted = [(when - pd.Timestamp(0)).dt.total_seconds() / 86400]
    wanted += [wave(2 * np.pi * phase) for phase in turn.values() for wave in (np.sin, np.cos)]
    np.testing.assert_allclose(values, np.stack(wanted, 1), atol=1e-8)
    assert [label.removeprefix("when ") for label in column.labels] == [
        "days", *(f"{name} ({wave})" for name in turn for wave in ("sin", "cos")),
    ]  # fmt: skip


def test_only_the_parts_of_a_date_that_vary():
    def labels(*days) -> list[str]:
        found = learn("d", pd.Series(days), np.arange(len(days)))
        return found.labels

    assert not any("time of day" in label for label in labels("2024-01-01", "2024-01-02", "2024-02-05"))
    assert not any(
        "time of day" in label for label in labels("2024-01-01 10:07", "2024-03-02 10:07", "2025-02-05 10:07")
    )
    assert labels("2024-01-01 09:00", "2024-01-01 10:00") == ["d days", "d time of day (sin)", "d time of day (cos)"]
    assert labels("2024-01-01", None) == ["d days"]
    assert learn("d", pd.Series(["2024-01-01"] * 2), np.arange(2)) == "it has one value throughout the training part"


def test_rare_categories_share_a_code():
    cells = [f"c{k % 400}" for k in range(2000)] + ["c7"] * 5
    column = learn("c", pd.Series(cells), np.arange(len(cells)))
    assert len(column.categories) == MOST_CATEGORIES
    assert column.categories[0] == "c7"
    assert set(column.codes(pd.Series(cells)).tolist()) == set(range(MOST_CATEGORIES + 1))


@pytest.mark.parametrize(
    "values",
    [
        {"name": "x"},
        {"name": "x", "kind": "spell", "numbers": [], "categories": []},
        {"name": "x", "kind": "date", "categories": [],
         "numbers": [{"part": "__import__", "mean": 0, "std": 1, "low": 0, "high": 1, "gaps": False}]},
        {"name": "x", "kind": "number", "categories": [],
         "numbers": [{"part": "", "mean": 0, "std": 1, "low": 0, "high": 1, "gaps": False, "quantiles": [2, 1]}]},
    ],
)  # fmt: skip
def test_values_that_are_no_column(values):
    with pytest.raises((KeyError, TypeError, ValueError)):
        Column.from_dict(values)
