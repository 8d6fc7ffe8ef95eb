"""The preparation: labels that are unknown, JSON of this version and of 0.1, columns in any order."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.bags.made import dataset, random_bags
from data.made import TRAIN, frame, table
from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.table import Table
from excora.errors import DataError, InputError
from excora.ragged import Ragged

OLD = Path(__file__).parents[1] / "fixtures" / "runs" / "0.1"


def through_json(prepared: Preparation) -> Preparation:
    return Preparation.from_dict(json.loads(json.dumps(prepared.to_dict(), allow_nan=False)))


def test_outside_means_half_the_range_beyond():
    prepared = Preparation.fit(table(pd.DataFrame({"x": [0.0, 10.0]})), np.arange(2))
    new = table(pd.DataFrame({"x": [-5.0, -5.1, 15.0, 15.1, np.nan, 5.0]}))
    assert prepared.examine(new).outside.tolist() == [0, 1, 0, 1, 0, 0]
    assert prepared.examine(new, np.array([3])).outside.tolist() == [1]


def test_bags_are_no_table():
    with pytest.raises(InputError, match="training had a table, and these data are bags"):
        Preparation.fit(table(frame()), TRAIN).features(dataset(random_bags()[0]))


# Targets.


def test_targets_are_scaled_by_their_known_labels():
    target = np.array([[1.0, np.nan], [np.nan, 4.0], [3.0, 8.0], [100.0, 100.0]])
    data = table(pd.DataFrame({"x": [1.0, 2, 3, 4]}), target=target)
    prepared = Preparation.fit(data, np.arange(3))
    assert (prepared.mean, prepared.std) == ((2.0, 6.0), (1.0, 2.0))
    scaled = prepared.scale(target)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled, [[-1, np.nan], [np.nan, -1], [1, 1], [98, 47]])
    np.testing.assert_array_equal(prepared.unscale(scaled), target)


def test_what_cannot_be_learned_from():
    data = table(frame())
    with pytest.raises(InputError, match="labelled samples, got none"):
        Preparation.fit(data.without_target(), TRAIN)
    with pytest.raises(InputError, match="labelled samples, got none"):
        Preparation.fit(data, TRAIN[:0])
    with pytest.raises(InputError, match="target 'y' is 0 throughout the training part"):
        Preparation.fit(data, TRAIN[:1])
    data.target[:30, 1] = np.nan
    with pytest.raises(InputError, match="target 'z' is unknown throughout the training part: nothing to learn"):
        Preparation.fit(data, TRAIN)
    data.target[5, 1] = 5
    with pytest.raises(InputError, match="target 'z' is 5 wherever the training part knows it: nothing to learn"):
        Preparation.fit(data, TRAIN)
    with pytest.raises(DataError, match="no column left to predict from\ncolumn 'same' is left out: it has one value"):
        Preparation.fit(table(frame()[["same"]]), TRAIN)
    with pytest.raises(InputError, match="the source 'table' has no option 'colour'; it has scaling"):
        Preparation.fit(table(frame()), TRAIN, colour="red")


# JSON.


def test_json_and_back():
    for data in (table(frame()), dataset(random_bags()[0], tuple("abcd")), dataset(random_bags()[0])):
        prepared = Preparation.fit(data, TRAIN)
        again = through_json(prepared)
        assert again == prepared
        assert sorted(prepared.to_dict()) == ["content", "kind", "mean", "std", "targets"]
        assert (again.spec, again.matrix_names, again.notes) == (prepared.spec, prepared.matrix_names, prepared.notes)
        np.testing.assert_array_equal(again.matrix(data), prepared.matrix(data))


@pytest.mark.parametrize(
    "change",
    [
        {"content": 5}, {"content": {}}, {"mean": None}, {"targets": 3}, {"targets": []}, {"std": [1.0]},
        {"std": [0, 1]}, {"mean": [float("nan"), 1]}, {"kind": "bags"}, {"content": {"columns": [], "left_out": {}}},
        {"content": {"columns": [{"name": "x"}], "left_out": {}}}, {"content": {"columns": 5, "left_out": {}}},
    ],
)  # fmt: skip
def test_json_of_another_kind_is_refused(change):
    values = Preparation.fit(table(frame()), TRAIN).to_dict()
    with pytest.raises(InputError, match="not a preparation"):
        Preparation.from_dict(values | change)


def test_json_of_nothing_and_of_a_source_that_is_not_there():
    for values in ({}, [], None, {"elements": None}):
        with pytest.raises(InputError, match="not a preparation"):
            Preparation.from_dict(values)
    with pytest.raises(InputError, match=r"there is no source 'slides'.* once that package is imported"):
        Preparation.from_dict(Preparation.fit(table(frame()), TRAIN).to_dict() | {"kind": "slides"})


@pytest.mark.parametrize("path", sorted(OLD.glob("*/run/preparation.json")), ids=lambda path: path.parts[-3])
def test_what_version_01_wrote_is_read_without_loss(path):
    values = json.loads(path.read_text())
    prepared = Preparation.from_dict(values)
    new = json.loads(json.dumps(through_json(prepared).to_dict()))
    assert {name: new[name] for name in ("targets", "mean", "std")} == {
        n: values[n] for n in ("targets", "mean", "std")
    }
    if "content" in values:  # of kriging, which came later
        assert new["content"] == values["content"]
    elif values["elements"] is None:
        assert new["content"] == {"columns": values["columns"], "left_out": values["left_out"]}
    else:
        assert new["content"] == {"statistics": values["elements"], "names": values["names"]}


# The order of columns and further ones say nothing.


def same_inputs(one: dict, other: dict) -> None:
    assert list(one) == list(other)
    for name, part in one.items():
        if isinstance(part, Ragged):
            assert part.lengths.tolist() == other[name].lengths.tolist()
            torch.testing.assert_close(part.values, other[name].values, rtol=0, atol=0)
        else:
            torch.testing.assert_close(part, other[name], rtol=0, atol=0)


def check_any_order(data: Dataset, new: Dataset) -> None:
    """What was learned on ``data`` survives JSON, and ``new`` gives the same with its columns in another order."""
    index = np.arange(len(data))
    prepared = through_json(Preparation.fit(data, index))
    assert prepared == Preparation.fit(data, index)
    same_inputs(prepared.features(new).read(index), prepared.features(data).read(index))
    np.testing.assert_array_equal(prepared.matrix(new), prepared.matrix(data))
    np.testing.assert_array_equal(prepared.examine(new).outside, prepared.examine(data).outside)


floats = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
words = st.sampled_from(["red", "green", "blue", ""])
days = st.dates().map(str)
column = st.sampled_from([floats, floats | st.none(), words, days | st.none(), st.booleans()])


def dealt(data: st.DataObject, kinds: list[st.SearchStrategy], rows: int) -> pd.DataFrame:
    cells = {f"c{k}": data.draw(st.lists(kind, min_size=rows, max_size=rows)) for k, kind in enumerate(kinds)}
    return pd.DataFrame(cells)


def shuffled(data: st.DataObject, plain: pd.DataFrame, extra: list[st.SearchStrategy]) -> pd.DataFrame:
    more = dealt(data, extra, len(plain)).add_prefix("more ")
    both = pd.concat([plain, more], axis=1)
    return both[data.draw(st.permutations(list(both)))]


@settings(max_examples=25)
@given(data=st.data(), kinds=st.lists(column, min_size=1, max_size=5), extra=st.lists(column, max_size=2))
def test_tables_with_columns_in_any_order(data, kinds, extra):
    rows = data.draw(st.integers(2, 8))
    plain = dealt(data, kinds, rows).assign(first=np.arange(rows))
    new = shuffled(data, plain, extra)
    target = np.arange(2.0 * rows).reshape(-1, 2)
    ids = np.arange(rows).astype(str).astype(object)
    before = Dataset(ids, ("y", "z"), target, Table(plain))
    check_any_order(before, Dataset(ids, ("y", "z"), None, Table(new)))


@settings(max_examples=25)
@given(
    data=st.data(),
    features=st.integers(1, 4),
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=5),
    extra=st.lists(st.sampled_from([floats, words, floats | st.none()]), max_size=2),
)
def test_long_tables_with_columns_in_any_order(data, features, sizes, extra):
    bag = np.repeat(np.arange(len(sizes)), sizes)
    plain = dealt(data, [floats] * features, len(bag)).assign(bag=[f"b{k}" for k in bag], y=bag.astype(float))
    new = shuffled(data, plain.drop(columns="y"), extra)
    with tempfile.TemporaryDirectory() as folder:
        plain.to_csv(Path(folder) / "train.csv", index=False)
        new.to_csv(Path(folder) / "new.csv", index=False)
        before = read(Path(folder) / "train.csv", bag="bag", target="y")
        check_any_order(before, read(Path(folder) / "new.csv", bag="bag", target="y", labelled=False))
