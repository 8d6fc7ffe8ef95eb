"""HDF5 files of strangers."""

from __future__ import annotations

import pickle
import shutil
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from excora.data import hdf5
from excora.data.hdf5 import StoredRows, complaints, inside, numbers, open_hdf5, stored, texts
from excora.errors import InputError


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["plain"] = np.arange(12.0).reshape(4, 3)
        file.create_dataset("chunked", data=np.arange(12).reshape(4, 3), chunks=(2, 3), compression="gzip")
        file["group/words"] = ["a", "ü"]
        file["group/codes"] = np.array([1, 2])
        file["group/away"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["opaque"] = np.void(b"abc")
    return tmp_path / "a.h5"


@pytest.mark.parametrize("key", ["plain", "chunked"])
def test_rows_in_any_order_and_twice(path, key):
    rows = StoredRows(path, key)
    assert (len(rows), rows.shape, rows.start is None) == (4, (4, 3), key == "chunked")
    wanted = np.arange(12).reshape(4, 3)
    for index in ([2, 0, 2], [3], []):
        np.testing.assert_array_equal(rows[np.array(index, np.intp)], wanted[np.array(index, np.intp)])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[np.array([1])], wanted[[1]])


def test_no_room_to_unpack(path, monkeypatch):
    rows = StoredRows(path, "chunked")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    np.testing.assert_array_equal(rows[np.array([2, 0, 2])], np.arange(12).reshape(4, 3)[[2, 0, 2]])
    assert rows._unpacked is None
    monkeypatch.undo()
    monkeypatch.setattr(hdf5, "PIECE", 1)
    np.testing.assert_array_equal(rows[np.array([3, 1])], np.arange(12).reshape(4, 3)[[3, 1]])
    assert rows._unpacked is not None


def test_links_are_not_followed(path):
    with open_hdf5(path) as file:
        group = inside(path, file, "group")
        assert texts(path, inside(path, group, "words"), "words").tolist() == ["a", "ü"]
        assert texts(path, inside(path, group, "codes"), "codes").tolist() == ["1", "2"]
        assert stored(path, file, "group") is None
        with pytest.raises(InputError, match="link to another place"):
            inside(path, group, "away")


def test_only_numbers_and_text(path):
    with open_hdf5(path) as file:
        for read in (numbers, texts):
            with pytest.raises(InputError, match="Python objects are never loaded"):
                read(path, inside(path, file, "opaque"), "opaque")
    with pytest.raises(InputError, match="must hold numbers"):
        StoredRows(path, "group")


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "b.h5").write_bytes(b"\x89HDF\r\n\x1a\nrubbish")
    with pytest.raises(InputError, match=r"b\.h5: this is not readable as HDF5"), complaints(tmp_path / "b.h5", "HDF5"):
        open_hdf5(tmp_path / "b.h5")
