"""The preparation: numbers against plain pandas, no look beyond the training part, and what does not fit is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from excora.data.bags import ArrayBags, BagSet, BagSpec
from excora.data.bags.statistics import MOST_BAGS, ElementStatistics
from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.table import Table, TableSpec
from excora.data.table.columns import MOST_CATEGORIES, learn
from excora.errors import DataError, InputError

N = 40


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


TRAIN = np.arange(30)


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


def test_outside_means_half_the_range_beyond():
    data = table(pd.DataFrame({"x": [0.0, 10.0]}))
    prepared = Preparation.fit(data, np.arange(2))
    new = table(pd.DataFrame({"x": [-5.0, -5.1, 15.0, 15.1, np.nan, 5.0]}))
    assert prepared.examine(new).outside.tolist() == [0, 1, 0, 1, 0, 0]
    bags = ArrayBags(np.array([[0.0, 0], [10, 1]]), [1, 1])
    prepared = Preparation.fit(Dataset(data.ids, ("y",), data.target[:, :1], content=BagSet(bags)), np.arange(2))
    new = ArrayBags(np.array([[15.0, 0], [15.1, 2], [-5.1, 9]]), [1, 2])
    assert prepared.examine(Dataset(data.ids, ("y",), content=BagSet(new))).outside.tolist() == [0, 2]
    assert prepared.examine(Dataset(data.ids, ("y",), content=BagSet(new)), np.array([1])).outside.tolist() == [2]


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


def random_bags(n=50, width=4, shift=0.0) -> tuple[ArrayBags, list[np.ndarray]]:
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, 30, n)
    values = (generator.standard_normal((lengths.sum(), width)) * [1, 10, 0.1, 0] + shift).astype(np.float32)
    return ArrayBags(values, lengths), np.split(values.astype(float), lengths.cumsum()[:-1])


def test_bags_against_plain_numpy():
    bags, plain = random_bags(shift=1000)
    data = Dataset(np.arange(50).astype(str).astype(object), ("y",), np.arange(50.0)[:, None], content=BagSet(bags))
    index = np.arange(0, 50, 2)
    prepared = Preparation.fit(data, index)
    seen = np.concatenate([plain[k] for k in index])
    np.testing.assert_allclose(prepared.content.statistics.mean, seen.mean(0), rtol=1e-12)
    np.testing.assert_allclose(prepared.content.statistics.std[:3], seen.std(0)[:3], rtol=1e-9)
    assert prepared.content.statistics.std[3] == 1
    assert prepared.notes == ("1 of 4 features never change in training",)
    assert prepared.spec == BagSpec(targets=1, width=4)
    batch = prepared.features(data).read(np.array([3, 1]))
    wanted = (np.concatenate([plain[3], plain[1]]) - seen.mean(0)) / prepared.content.statistics.std
    np.testing.assert_allclose(
        batch["elements"].values, wanted, atol=2e-3
    )  # float32 at a distance of 10,000 deviations
    scaled = [(bag - seen.mean(0)) / prepared.content.statistics.std for bag in plain]
    rows = [np.concatenate([b.mean(0), b.std(0), b.min(0), b.max(0), [np.log(len(b))]]) for b in scaled]
    np.testing.assert_allclose(prepared.matrix(data), rows, atol=1e-9)
    assert len(prepared.matrix_names) == 17
    same = np.array([np.flatnonzero(bags.lengths == bags.lengths[0])[0]] * 2)
    assert prepared.features(data).read(same)["elements"].shape == (2, bags.lengths[same[0]], 4)


def test_many_bags_are_sampled_and_large_ones_are_read_in_blocks():
    values = np.arange(2.0 * MOST_BAGS)[:, None]
    found = ElementStatistics.learn(ArrayBags(values, np.ones(2 * MOST_BAGS, int)), np.arange(2 * MOST_BAGS))
    assert abs(found.mean[0] - (MOST_BAGS - 0.5)) < 60
    assert found.mean[0] != MOST_BAGS - 0.5
    large = np.random.default_rng(0).standard_normal((20_000, 100)).astype(np.float32)
    found = ElementStatistics.learn(ArrayBags(large, [20_000]), np.arange(1))
    np.testing.assert_allclose(found.std, large.std(0, dtype=np.float64), rtol=1e-12)


def test_json_and_back():
    bags, _ = random_bags()
    for data in (
        table(frame()),
        Dataset(np.arange(50).astype(str).astype(object), ("y",), np.ones((50, 1)), content=BagSet(bags)),
    ):
        data.target[0] = 5
        prepared = Preparation.fit(data, TRAIN)
        again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict(), allow_nan=False)))
        assert again == prepared
        np.testing.assert_array_equal(again.matrix(data), prepared.matrix(data))


@pytest.mark.parametrize(
    "change",
    [
        {"content": 5}, {"content": {}}, {"mean": None}, {"targets": 3}, {"targets": []}, {"std": [1.0]},
        {"std": [0, 1]}, {"mean": [float("nan"), 1]}, {"kind": "bags"},
    ],
)  # fmt: skip
def test_json_of_another_kind_is_refused(change):
    values = Preparation.fit(table(frame()), TRAIN).to_dict() | change
    with pytest.raises(InputError, match="not a preparation"):
        Preparation.from_dict(values)
    with pytest.raises(InputError, match="not a preparation"):
        Preparation.from_dict({})


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


def test_tables_are_no_bags():
    bags, _ = random_bags()
    of_bags = Dataset(np.arange(50).astype(str).astype(object), ("y",), np.arange(50.0)[:, None], content=BagSet(bags))
    with pytest.raises(InputError, match="training had a table, and these data are bags"):
        Preparation.fit(table(frame()), TRAIN).features(of_bags)
    prepared = Preparation.fit(of_bags, TRAIN)
    with pytest.raises(InputError, match="training had bags, and these data are a table"):
        prepared.features(table(frame()))
    with pytest.raises(InputError, match="had 4 features in training and have 2 now"):
        prepared.features(Dataset(of_bags.ids, ("y",), content=BagSet(ArrayBags(np.ones((50, 2)), np.ones(50, int)))))
    lengths = np.ones(51, int)
    lengths[7] = 0
    ids = np.arange(51).astype(str).astype(object)
    with pytest.raises(InputError, match="bag '7' is empty"):
        prepared.features(Dataset(ids, ("y",), content=BagSet(ArrayBags(np.ones((50, 4)), lengths))))


def test_rare_categories_share_a_code():
    cells = [f"c{k % 400}" for k in range(2000)] + ["c7"] * 5
    column = learn("c", pd.Series(cells), np.arange(len(cells)))
    assert len(column.categories) == MOST_CATEGORIES
    assert column.categories[0] == "c7"
    assert set(column.codes(pd.Series(cells)).tolist()) == set(range(MOST_CATEGORIES + 1))


def test_what_cannot_be_learned_from():
    with pytest.raises(InputError, match="labelled samples, got none"):
        Preparation.fit(table(frame()).without_target(), TRAIN)
    with pytest.raises(InputError, match="labelled samples, got none"):
        Preparation.fit(table(frame()), TRAIN[:0])
    with pytest.raises(InputError, match="target 'y' is 0 throughout the training part"):
        Preparation.fit(table(frame()), TRAIN[:1])
    with pytest.raises(DataError, match="no column left to predict from\ncolumn 'same' is left out: it has one value"):
        Preparation.fit(table(frame()[["same"]]), TRAIN)


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
