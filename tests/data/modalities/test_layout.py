"""The layout by part and name, from pickles and .npz, and what is no such layout."""

from __future__ import annotations

import numpy as np
import pytest

from data.modalities.made import content, write
from excora.data.modalities.layout import holds, joined, read_layout
from excora.errors import InputError


def test_the_parts_stand_end_to_end_in_one_order(tmp_path):
    held = content()
    shuffled = {"test": held["test"], "train": held["train"], "valid": held["valid"]}
    found = read_layout(write(tmp_path / "a.pkl", shuffled))
    assert len(found) == 16
    assert found.part.tolist() == ["train"] * 8 + ["validation"] * 4 + ["test"] * 4
    np.testing.assert_array_equal(found.arrays["audio"][8:12], held["valid"]["audio"])


def test_an_npz_has_the_same(tmp_path):
    one, other = (read_layout(write(tmp_path / name)) for name in ("a.pkl", "a.npz"))
    assert set(one.arrays) == set(other.arrays)
    assert one.part.tolist() == other.part.tolist()
    np.testing.assert_array_equal(one.arrays["vision"], other.arrays["vision"])


def test_what_an_npz_holds_is_seen_by_its_names(tmp_path):
    np.savez(tmp_path / "bags.npz", values=np.zeros((2, 2)), lengths=np.array([2]))
    np.savez(tmp_path / "flat.npz", text=np.zeros((2, 2)))
    (tmp_path / "no.npz").write_text("x")
    names = ("bags.npz", "flat.npz", "no.npz", "absent.npz")
    assert [holds(tmp_path / name) for name in names] == [False, True, False, False]


def test_clips_without_parts(tmp_path):
    found = joined(tmp_path, {"text": np.zeros((3, 2, 2)), "z": [1, 2, 3], "about": "text"})
    assert found.part is None
    assert set(found.arrays) == {"text", "z"}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([1], "a dictionary of train, valid and test, got list"),
        ({"x": 1}, "expected any of text, audio, vision, text_bert, raw_text, got x"),
        ({"train": {"text": [np.zeros((2, 1)), np.zeros((3, 1))]}}, "must be one array, padded to one length"),
        ({"train": {"text": np.zeros((2, 1, 1)), "audio": np.zeros((3, 1, 1))}}, "text has 2 clips and audio has 3"),
        ({"train": {"text": np.zeros((2, 1, 1))}, "test": {"text": np.zeros((2, 3, 1))}}, "the same steps and width"),
        ({"train": {"text": np.zeros((2, 1, 1)), "audio": np.zeros((2, 1, 1))}, "test": {"text": np.zeros((2, 1, 1))}},
         "audio is missing from test"),
        ({"train": {"text": np.zeros((0, 1, 1))}}, "no part of it holds a clip"),
    ],
)  # fmt: skip
def test_what_is_no_such_layout(tmp_path, value, match):
    with pytest.raises(InputError, match=match):
        joined(tmp_path / "a.pkl", value)


def test_objects_in_an_npz_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", **{"train/text": np.zeros((2, 2)), "train/id": np.array(["a", None], object)})
    with pytest.raises(InputError, match="Python objects"):
        read_layout(tmp_path / "a.npz")
