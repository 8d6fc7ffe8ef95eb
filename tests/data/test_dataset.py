"""The data set and the batch: some samples, hidden labels, the fingerprint, moving."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from excora.data.dataset import Batch, Dataset, in_double, none_of
from excora.data.table import Table
from excora.errors import InputError
from excora.ragged import Ragged


def make() -> Dataset:
    ids, group = (np.array(list(letters), object) for letters in ("abcd", "ppqq"))
    target = np.array([[1.0, np.nan], [2, 5], [3, 6], [4, 7]])
    table = Table(pd.DataFrame({"x": range(4)}))
    return Dataset(ids, ("y", "z"), target, table, group, np.arange(4.0), np.ones(4), ("a note",))


def test_some_samples_have_all_their_parts():
    taken = make().take(np.array([2, 0, 2]))
    assert taken.ids.tolist() == ["c", "a", "c"]
    np.testing.assert_array_equal(taken.target, [[3, 6], [1, np.nan], [3, 6]])
    assert taken.content.frame["x"].tolist() == [2, 0, 2]
    assert (taken.group.tolist(), taken.time.tolist(), taken.weight.tolist()) == (["q", "p", "q"], [2, 0, 2], [1] * 3)
    assert (taken.targets, taken.notes, taken.kind) == (("y", "z"), ("a note",), "table")
    bare = Dataset(make().ids, ("y",)).take(np.array([1]))
    assert (bare.content, bare.target, bare.group, bare.time, bare.weight) == (None,) * 5


def test_labels_alone_have_no_kind():
    assert make().without_target().target is None
    with pytest.raises(InputError, match="nothing to predict from"):
        _ = Dataset(make().ids, ("y",)).kind


def test_the_fingerprint_tells_data_apart():
    data = make()
    changed = [
        replace(data, ids=data.ids[::-1]), replace(data, target=data.target + 1), replace(data, weight=data.time),
        replace(data, time=None), replace(data, group=data.ids), data.without_target(), data.take(np.arange(3)),
        replace(data, content=Table(pd.DataFrame({"x": range(1, 5)}))), replace(data, content=None),
    ]  # fmt: skip
    assert data.fingerprint() == make().fingerprint()
    assert len({one.fingerprint() for one in [data, *changed]}) == 10


def test_a_batch_moves_whole():
    bags = Ragged(torch.ones(3, 2), torch.tensor([1, 2]))
    inputs = {"elements": bags, "code": torch.tensor([1, 2])}
    known = torch.tensor([[True], [False]])
    batch = Batch(inputs, torch.zeros(2, 1), known, None, torch.arange(2)).to("meta")
    assert len(batch) == 2
    assert {batch.inputs["elements"].values.device.type, batch.target.device.type, batch.target_mask.device.type} == {
        "meta"
    }
    assert batch.index.device.type == "cpu"
    assert batch.weight is None
    wide = in_double(inputs)
    assert (wide["elements"].values.dtype, wide["code"].dtype) == (torch.float64, torch.int64)
    empty = none_of(inputs)
    assert (len(empty["elements"]), empty["elements"].values.shape, empty["code"].shape) == (0, (0, 2), (0,))
