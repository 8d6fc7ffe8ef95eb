"""Values for JSON, fingerprints, and finished parts on disk."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from excora.errors import InputError
from excora.storage import Parts, fingerprint, plain, write_atomically


@dataclasses.dataclass
class Figure:
    value: float
    name: str


def test_plain_is_what_json_holds():
    row = (math.nan, 1 / 3, "x", None, True)
    given = {1: row, "t": torch.ones(2), "a": np.float64(math.inf), "f": Figure(-math.inf, "n")}
    found = plain(given)
    assert found == {"1": [None, 1 / 3, "x", None, True], "t": [1.0, 1.0], "a": None, "f": {"value": None, "name": "n"}}
    assert plain(given, digits=6)["1"][1] == 0.333333
    assert json.loads(json.dumps(found, allow_nan=False)) == found


LEAVES = st.floats() | st.integers() | st.text() | st.none()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_plain_of_anything_survives_json(value):
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == plain(value)
    assert plain(plain(value)) == plain(value)


def test_a_fingerprint_sees_values_types_shapes_and_what_is_not_there():
    numbers = np.arange(6.0)
    others = [numbers + 1, numbers.astype(np.float32), numbers.reshape(2, 3), None, numbers[:5]]
    assert len({fingerprint(numbers), *map(fingerprint, others)}) == 6
    assert fingerprint(numbers.reshape(2, 3).T) == fingerprint(np.ascontiguousarray(numbers.reshape(2, 3).T))
    assert fingerprint(numbers, None) != fingerprint(None, numbers)


def test_parts_are_there_for_the_next_process(tmp_path):
    one, other = Parts(tmp_path / "parts"), Parts(tmp_path / "parts")
    assert one.files() == []
    one.claim()
    one.write("A | 1", {"x": 1})
    other.write("a | 2", {"x": 2})
    assert one.read("a | 2") == {"x": 2}
    assert [part["x"] for part in other.read_all()] == [1, 2]
    assert one.read("a | 3") is None


@given(st.binary(max_size=40) | st.sampled_from([b"[]", b"3", b"[" * 100_000]))
def test_a_broken_part_is_named(tmp_path_factory, content):
    parts = Parts(tmp_path_factory.mktemp("broken"))
    parts.path("a").write_bytes(content)
    try:
        there = isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        there = False
    if not there:
        with pytest.raises(InputError, match=r"a\.json.*remove it"):
            parts.read("a")


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        Parts(tmp_path / "file" / "parts").claim()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    write_atomically(tmp_path / "new" / "a.txt", "one")

    def broken(*_):
        raise OSError

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError):  # noqa: PT011
        write_atomically(tmp_path / "new" / "a.txt", "two")
    assert [(path.name, path.read_text()) for path in (tmp_path / "new").iterdir()] == [("a.txt", "one")]
