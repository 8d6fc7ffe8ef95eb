"""The ragged .npz: its arrays, mapped or not, and contradictions."""

from __future__ import annotations

import numpy as np
import pytest

from data.bags.made import BAGS, IDS, TARGET, N, same
from excora.data.reading import read
from excora.errors import DataError


@pytest.mark.parametrize("compressed", [False, True])
def test_a_ragged_npz(tmp_path, compressed):
    arrays = {"values": np.concatenate(BAGS), "lengths": np.array([len(bag) for bag in BAGS])}
    keep = np.savez_compressed if compressed else np.savez
    keep(tmp_path / "a.npz", **arrays, target=TARGET, ids=np.array(IDS), group=np.arange(N) // 2, other=np.ones(2))
    data = read(tmp_path / "a.npz")
    assert isinstance(data.content.bags.values, np.memmap) is not compressed
    assert (data.ids.tolist(), data.group.tolist()[:3], data.targets) == (IDS, ["0", "0", "1"], ("target",))
    same(data)
    both = np.stack([TARGET, -TARGET], 1)
    keep(tmp_path / "b.npz", **(arrays | {"values": np.asfortranarray(arrays["values"])}), target=both, when=TARGET)
    data = read(tmp_path / "b.npz", target=["up", "down"], time="when")
    np.testing.assert_array_equal(data.target, both)
    assert (data.targets, data.time.tolist(), data.ids[0]) == (("up", "down"), TARGET.tolist(), "0")
    same(data)
    assert read(tmp_path / "b.npz").targets == ("target 0", "target 1")
    with pytest.raises(DataError, match="target has 2 columns, got 3 names"):
        read(tmp_path / "b.npz", target=["a", "b", "c"])
    assert read(tmp_path / "b.npz", target="when").target[:, 0].tolist() == TARGET.tolist()
    roles = {"target": ["up", "down", "odd"], "id": "names", "group": "g", "labelled": False}
    assert read(tmp_path / "b.npz", **roles).target is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"values": np.ones((3, 2))}, "expected the arrays values .* and lengths"),
        ({"values": np.ones((3, 2)), "lengths": np.array([1, 3])}, r"sum to the 3 rows .* and sum 4"),
        ({"values": np.ones((3, 2)), "lengths": np.array([4, -1])}, "whole numbers >= 0"),
        ({"values": np.ones((3, 2)), "lengths": np.array([1.0, 2.0])}, "whole numbers"),
        ({"values": np.ones(3), "lengths": np.array([1, 2])}, r"values must be numbers of shape \(total, width\)"),
        ({"values": np.ones((3, 2)), "lengths": np.array([0, 3]), "target": np.arange(2)}, "bag '0' is empty"),
        ({"values": np.ones((3, 0)), "lengths": np.array([1, 2]), "target": np.arange(2)}, "have no features"),
        ({"values": np.ones((3, 2)), "lengths": np.array([1, 2]), "target": np.arange(3)}, "no column 'target'"),
        ({"values": np.ones((3, 2)), "lengths": np.array(3)}, "lengths must have an entry for each bag"),
        ({"values": np.array([["a"]]), "lengths": np.array([1])}, "values must be numbers"),
        (
            {"values": np.ones((2, 2)), "lengths": np.array([1, 1]), "ids": np.array(["a", "a"])},
            "in every bag, got 'a'",
        ),
    ],
)
def test_ragged_files_that_contradict_themselves(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.npz")


def test_unknown_labels(tmp_path):
    target = np.stack([TARGET, -TARGET], 1)
    target[0], target[1, 0] = np.nan, np.nan
    np.savez(tmp_path / "a.npz", values=np.concatenate(BAGS), lengths=[len(bag) for bag in BAGS], target=target)
    data = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.target, target[1:])
    assert data.notes == ("1 of 12 bags has no label and is left out",)
    same(data, BAGS[1:])


def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("excora.data.bags.files.BOMB", 100_000)
    arrays = {"lengths": np.full(10, 1000), "target": np.arange(10.0)}
    np.savez_compressed(tmp_path / "a.npz", values=np.zeros((10_000, 20), np.float32), **arrays)
    with pytest.raises(DataError, match=r"'values' would grow from 0\.0 to 1 MB .* np\.savez, not compressed"):
        read(tmp_path / "a.npz")
    values = np.random.default_rng(0).normal(size=(10_000, 20))
    np.savez_compressed(tmp_path / "a.npz", values=values, **arrays)
    assert len(read(tmp_path / "a.npz")) == 10
