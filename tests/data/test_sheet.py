"""Targets, groups, times, weights and names: everything wrong at once, and labels that are unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from data.made import problems
from excora.data.roles import Roles
from excora.data.sheet import Sheet


def test_everything_wrong_is_reported_at_once(tmp_path):
    path = tmp_path / "a.csv"
    rows = "a,1,5,,x,-1,inf,1\na,,5,p,2024-01-31,1,2,?\nb,two,5,q,2024-02-01,1,3,3\n"
    path.write_text("id,y,z,g,t,w,x,n\n" + rows * 7)
    found = problems(path, target=["y", "z", "q"], group="g", time="t", weight="w", id="id", drop=["gone"])
    expected = [
        "there is no column 'gone' to drop",
        "the id 'id' must be different in every row, got 'a' in 2 and 3",
        "the target 'y' must be a finite number, or empty where it is unknown, got 'two' in row 4 (7 such rows)",
        "there is no column 'q' for the target",
        "the target 'z' is 5 in every row",
        "the group 'g' must be there in every row, got nothing in row 2 (7 such rows)",
        "the time 't' must be numbers or dates like 2024-01-31 17:05, got 'x' in row 2",
        "the weight 'w' must not be negative, got -1 in row 2 (7 such rows)",
        "column 'x' must hold finite numbers or empty cells, got 'inf' in row 2 (7 such rows)",
    ]
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert got.startswith(wanted)


def described(labelled=True, **columns):
    frame = pd.DataFrame(columns)
    sheet = Sheet("f", frame, np.arange(len(frame)) + 2)
    found = sheet.described(Roles.of(target=tuple(columns)), labelled=labelled)
    return found["target"], sheet.problems


def test_an_empty_cell_is_an_unknown_label():
    target, wrong = described(y=[1.0, None, 3.0], z=["1", None, "2"])
    np.testing.assert_array_equal(target, [[1, 1], [np.nan, np.nan], [3, 2]])
    assert wrong == []


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([1, 2, "two"], "must be a finite number, or empty where it is unknown, got 'two' in row 4: correct it or"),
        ([1, 2, np.inf, -np.inf], "got inf in row 4 (2 such rows)"),
        ([1, 2, 1e200], "got 1e+200 in row 4"),
        ([1, None, None], "'y' must be known in at least 2 rows, got 1 of 3: give more labels or another target"),
        ([None, None], "'y' must be known in at least 2 rows, got 0 of 2"),
        ([7], "'y' must be known in at least 2 rows, got 1 of 1"),
        ([5, None, 5], "'y' is 5 wherever it is known: there is nothing to predict"),
        ([5, 5], "'y' is 5 in every row: there is nothing to predict"),
    ],
)
def test_labels_that_will_not_do(cells, message):
    _, wrong = described(y=pd.Series(cells, dtype=object))
    assert len(wrong) == 1
    assert message in wrong[0]
    assert described(labelled=False, y=pd.Series(cells, dtype=object))[1] == []
