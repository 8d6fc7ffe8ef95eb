"""The preparation of tables: against plain pandas, no look beyond the training part, what does not fit is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from data.made import TRAIN, N, frame, table
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.table import TableSpec
from excora.errors import DataError


def test_a_table_against_plain_pandas():
    data = table(frame())
    prepared = Preparation.fit(data, TRAIN)
    assert prepared.spec == TableSpec(targets=2, numeric=2 + 7, categories=(4, 3))
    assert list(prepared.content.left_out) == ["same", "empty", "name"]
    assert "text of its own (30 in 30)" in prepared.content.left_out["name"]
    index = np.array([39, 0, 5, 2])
    rows = prepared.features(data).read(index)
    seen = data.content.frame["x"].iloc[TRAIN]
    x = (data.content.frame["x"].iloc[index] - seen.mean()) / seen.std(ddof=0)
    np.testing.assert_allclose(rows["numeric"][:, 0], x.fillna(0), rtol=1e-6)
    assert rows["missing"][:, 0].tolist() == x.isna().tolist()
    assert not rows["missing"][:, 1:].any()
    assert (rows["numeric"].dtype, rows["missing"].dtype, rows["codes"].dtype) == (
        torch.float32,
        torch.bool,
        torch.int64,
    )
    # The most frequent category has code 1; equal counts by name: "(empty)" before "blue".
    assert [column.categories for column in prepared.content.columns if column.kind == "category"] == [
        ("red", "blue", "(empty)"), ("False", "True"),
    ]  # fmt: skip
    assert rows["codes"].tolist() == [[1, 1], [1, 2], [2, 1], [3, 2]]
    np.testing.assert_allclose(prepared.scale(data.target)[TRAIN].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(prepared.scale(data.target)[TRAIN].std(0), 1, rtol=1e-6)
    np.testing.assert_allclose(prepared.unscale(prepared.scale(data.target)), data.target, rtol=1e-5, atol=1e-4)
    assert prepared.features(data).sizes.tolist() == [11] * N


def test_nothing_beyond_the_training_part_is_looked_at():
    first = frame()
    second = first.copy()
    rows = np.arange(30, N)
    second.loc[rows, "x"] = 1e9
    second.loc[rows, "colour"] = "green"
    second.loc[rows, "when"] = "1999-01-01"
    target = table(first).target.copy()
    target[rows] = -1e6
    one, other = Preparation.fit(table(first), TRAIN), Preparation.fit(table(second, target=target), TRAIN)
    assert one == other
    found = one.examine(table(second))
    assert found.unseen == {"colour": 10}
    assert (found.outside[:30] == 0).all()
    assert (found.outside[30:] >= 2).all()
    assert found.notes == ("column 'colour': 10 cells have a category new to the model",)
    assert one.examine(table(second), np.array([31])).unseen == {"colour": 1}
    assert (one.features(table(second)).read(rows)["numeric"][:, 0] == 1e6).all()


def test_the_matrix_of_a_table():
    data = table(frame())
    prepared = Preparation.fit(data, TRAIN)
    matrix = prepared.matrix(data)
    names = prepared.matrix_names
    assert matrix.shape == (N, len(names))
    assert np.isfinite(matrix).all()
    assert names[-6:] == (
        "x is missing",
        "colour = red",
        "colour = blue",
        "colour = (empty)",
        "flag = False",
        "flag = True",
    )
    np.testing.assert_array_equal(matrix[:, names.index("x is missing")], data.content.frame["x"].isna())
    np.testing.assert_array_equal(matrix[:, names.index("colour = red")], data.content.frame["colour"] == "red")
    rows = prepared.features(data).read(np.arange(N))
    np.testing.assert_allclose(matrix[:, :9], rows["numeric"], rtol=1e-6, atol=1e-7)


def test_columns_that_do_not_fit_are_named_all_at_once():
    prepared = Preparation.fit(table(frame()), TRAIN)
    new = frame().drop(columns="few")
    new["x"], new["when"], new["colour"] = "abc", 5.0, pd.date_range("2024", periods=N)
    with pytest.raises(DataError) as caught:
        prepared.features(table(new))
    assert caught.value.problems == [
        "column 'x' has changed: it had numbers in training and has text or booleans now, for example 'abc'",
        "column 'few' is missing: training had it",
        "column 'colour' has changed: it had categories like 'red', 'blue', '(empty)' in training and has dates now",
        "column 'when' has changed: it had dates in training and has numbers now",
    ]


def test_columns_that_seem_to_change_still_fit():
    prepared = Preparation.fit(table(frame()), TRAIN)
    new = frame()[["flag", "when", "colour", "few", "x"]].assign(more=1, same="now text")  # another order, more columns
    assert prepared.examine(table(new)).notes == ("column 'more' is ignored: training has not seen it",)
    np.testing.assert_array_equal(prepared.matrix(table(new)), prepared.matrix(table(frame())))
    new[["x", "when", "colour"]] = None
    rows = prepared.features(table(new)).read(np.arange(N))
    assert rows["missing"].sum() == 8 * N
    assert (rows["codes"][:, 0] == 3).all()
    digits = table(pd.DataFrame({"c": ["1", "2", "x"] * 2}))
    prepared = Preparation.fit(digits, np.arange(6))
    for cells in ([1, 2, 7], [1.0, 2.0, np.nan]):
        found = prepared.features(table(pd.DataFrame({"c": cells}))).read(np.arange(3))["codes"][:, 0].tolist()
        assert found == [1, 2, 0]
    with pytest.raises(
        DataError, match="'c' has changed: it had categories like '1', '2', 'x' in training and has num"
    ):
        prepared.features(table(pd.DataFrame({"c": [8, 9]})))


numbers = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 12), st.integers(1, 3)),
    elements=st.one_of(st.floats(-1e150, 1e150), st.just(np.nan), st.sampled_from([0.0, 1.0, 5e-324])),
)  # fmt: skip


@given(numbers)
def test_any_numbers_give_finite_features(values):
    n = len(values)
    data = table(pd.DataFrame(values), n, target=np.stack([np.arange(n), -np.arange(n)], 1).astype(float))
    try:
        prepared = Preparation.fit(data, np.arange(n - n // 2, n) if n > 3 else np.arange(n))
    except DataError:
        return
    rows = prepared.features(data).read(np.arange(n))
    assert torch.isfinite(rows["numeric"]).all()
    assert np.isfinite(prepared.matrix(data)).all()
    assert Preparation.from_dict(json.loads(json.dumps(prepared.to_dict(), allow_nan=False))) == prepared


def test_the_elements_of_a_row_have_names():
    names = Preparation.fit(table(frame()), TRAIN).element_names
    assert names[:3] == ["x", "few", "when days"]
    assert names[-2:] == ["colour", "flag"]
    assert len(names) == 11


def test_a_column_that_nobody_can_read_matters_only_if_training_had_it(tmp_path):
    plain = pd.DataFrame({"x": [1.0, 2, 4], "c": list("aba"), "y": [1.0, 2, 3]})
    plain.to_csv(tmp_path / "train.csv", index=False)
    plain.drop(columns="y").assign(more=np.inf, x=[1.0, 2, 4]).to_csv(tmp_path / "more.csv", index=False)
    plain.drop(columns="y").assign(x=[1.0, np.inf, 4]).to_csv(tmp_path / "bad.csv", index=False)
    data = read(tmp_path / "train.csv", target="y")
    prepared = Preparation.fit(data, np.arange(3))
    new = read(tmp_path / "more.csv", target="y", labelled=False)
    np.testing.assert_array_equal(prepared.matrix(new), prepared.matrix(data))
    assert prepared.examine(new).notes == ("column 'more' is ignored: training has not seen it",)
    with pytest.raises(DataError, match="column 'x' must hold finite numbers or empty cells, got 'inf' in row 3"):
        prepared.features(read(tmp_path / "bad.csv", target="y", labelled=False))
