"""A table as content: some of its rows, its mark, and its prepared rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import torch

from excora.data.table import Table, TableFeatures, TableSpec


def mark(frame: pd.DataFrame) -> str:
    found = hashlib.sha256()
    Table(frame).mark(found)
    return found.hexdigest()


def test_rows_of_a_table():
    table = Table(pd.DataFrame({"x": [1, 2, 3]}), {"odd": "why"})
    taken = table.take(np.array([2, 0, 2]))
    assert (len(table), len(taken), taken.kind, taken.unusable) == (3, 3, "table", {"odd": "why"})
    assert taken.frame["x"].tolist() == [3, 1, 3]
    assert taken.frame.index.tolist() == [0, 1, 2]


def test_the_mark_knows_names_and_cells():
    frame = pd.DataFrame({"x": [1.0, 2.0], "c": ["a", None]})
    assert mark(frame) == mark(frame.copy())
    others = [frame.rename(columns={"x": "y"}), frame.assign(x=[1.0, 2.5]), frame.assign(c=["a", "b"]), frame[["x"]]]
    assert len({mark(other) for other in [frame, *others]}) == 5


def test_features_are_read_by_name():
    features = TableFeatures(
        np.array([[1.0], [2.0]], np.float32), np.array([[False], [True]]), np.array([[1, 2], [0, 1]])
    )
    rows = features.read(np.array([1]))
    assert list(rows) == ["numeric", "missing", "codes"]
    assert [rows[name].dtype for name in rows] == [torch.float32, torch.bool, torch.int64]
    assert (rows["numeric"].tolist(), rows["codes"].tolist()) == ([[2.0]], [[0, 1]])
    assert features.sizes.tolist() == [3, 3]
    assert (TableSpec(targets=1).kind, Table.kind) == ("table", "table")
