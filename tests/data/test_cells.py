"""Cells: what a column holds, whatever type it has."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from excora.data.cells import gaps, kind_of, numbers, texts
from excora.data.dates import moments

DAY = datetime.date(2024, 1, 31)

KINDS = [
    ([1, 2, None], "number"), ([0, 1, 1], "number"), ([decimal.Decimal("1.5"), None], "number"),
    (["a", None, "b"], "category"), ([True, None, False], "category"), ([1, "a"], "category"), (["1", "2"], "category"),
    (["2024-01-31", None, "2024-02-01 10:00"], "date"), (["2024-01-31T10:00:00.5+01:00"], "date"),
    ([DAY, None], "date"), (["2024-13-45"], "category"), (["31/01/2024"], "date"), (["01/02/2024"], "category"),
    ([None, np.nan], "empty"), ([], "empty"),
    ([[1], [2]], "other"), ([b"a"], "other"), ([{"a": 1}], "other"), ([datetime.time(1)], "other"), ([1j], "other"),
]  # fmt: skip  # fmt: skip


@pytest.mark.parametrize(("cells", "kind"), KINDS, ids=lambda value: str(value)[:30])
def test_kinds_of_columns(cells, kind):
    column = pd.Series(cells, dtype=object)
    assert kind_of(column) == kind
    assert numbers(column).shape == (len(cells),)
    assert kind_of(pd.Series(cells)) == ("other" if cells == [1j] else kind)


def test_kinds_of_pandas_types():
    days = pd.Series(pd.date_range("2024-01-31", periods=2))
    assert [kind_of(days.astype(f"datetime64[{unit}]")) for unit in ("s", "us", "ns")] == ["date"] * 3
    assert [moments(days.astype(f"datetime64[{unit}]")).tolist() for unit in ("s", "us", "ns")] == [[19753, 19754]] * 3
    assert moments(days.dt.tz_localize("Europe/Vienna")).tolist() == [19753 - 1 / 24, 19754 - 1 / 24]
    assert np.isnan(numbers(days)).all()
    never = [moments(pd.Series([day, None, "9999-12-31"]))[2] for day in ("2024-01-31", "2024-01-31T10:00Z")]
    assert never == [(datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days] * 2
    assert kind_of(pd.Series([datetime.date(9999, 12, 31), None])) == "date"
    assert kind_of(pd.Series(["9999-12-31", "9999-13-31"])) == "category"
    assert kind_of(pd.Series([1, None], dtype="Int64")) == "number"
    assert kind_of(pd.Series([True, None], dtype="boolean")) == "category"
    assert kind_of(pd.Series(["a", None], dtype="string")) == "category"
    assert kind_of(pd.Series([3, 4], dtype="category")) == "category"
    assert kind_of(pd.Series(pd.to_timedelta([1, 2]))) == "other"
    assert texts(pd.Series([1.0, 2.5, None])).tolist() == ["1", "2.5", None]


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["1", "?", "2"], [False, True, False]), (["1.5", " NA ", None], [False, True, False]),
        (["1e3", "-", "n/a"], [False, True, True]), ([1, "missing"], [False, True]), (["1", "2"], None),
        (["1", "?", "red"], None), (["?", "-"], None), ([1.0, None], None), ([True, "?"], None),
    ],
)  # fmt: skip
def test_words_for_missing_among_numbers(cells, found):
    got = gaps(pd.Series(cells, dtype=object))
    assert (None if got is None else got.tolist()) == found
