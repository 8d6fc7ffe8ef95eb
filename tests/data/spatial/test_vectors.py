"""Patch features: the layouts, and which vectors belong to which spot."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from excora.data.spatial.vectors import Vectors, read_vectors, runs
from excora.errors import InputError


def read(made, path):
    return read_vectors(path, np.array(made.barcodes, object), made.coords, 16.0)


def test_by_barcode_in_any_order(made, tmp_path):
    order = np.random.default_rng(0).permutation(len(made.barcodes))
    codes = np.array([made.barcodes[k].encode() for k in order])
    path = made.vectors(tmp_path / "a.h5", barcodes=codes, features=made.features[order], grid=made.grid[order])
    found = read(made, path)
    values, lengths = found.take(np.array([3, 0]))
    np.testing.assert_array_equal(values, made.features[[3, 0]].astype(np.float32))
    assert lengths.tolist() == [1, 1]
    values, lengths = found.take(np.array([3, 0]), grid=True)
    np.testing.assert_array_equal(values, made.grid[[3, 0]].reshape(-1, 6).astype(np.float32))
    assert lengths.tolist() == [4, 4]
    assert found.sizes(grid=True).tolist() == [4] * 20


def test_hest_embeddings_have_a_column_of_barcodes(made, tmp_path):
    codes = np.array([[code.encode()] for code in made.barcodes])
    changes = {"features": None, "grid": None, "barcodes": None, "embeddings": made.features, "barcode": codes}
    found = read(made, made.vectors(tmp_path / "a.h5", **changes))
    np.testing.assert_array_equal(found.mean(np.arange(20)), made.features.astype(np.float32))


def patches(path, corners, vectors, **attributes):
    """As CLAM and TRIDENT write them."""
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = vectors, corners
        file["coords"].attrs.update(attributes)
    return path


@pytest.mark.parametrize("factor", [1, 2])
def test_patches_by_their_place(made, tmp_path, factor):
    """Corners of patches of 8 pixels, of which four lie on a spot; on a 40x slide they cover 16, and one does."""
    side = 8 * factor
    corners = np.array([[x, y] for y in range(0, 96, side) for x in range(0, 96, side)])
    vectors = corners.astype(np.float32)
    trident = {"patch_size": 8, "patch_size_level0": side, "level0_magnification": 20 * factor, "overlap": 0}
    found = read(made, patches(tmp_path / "a.h5", corners, vectors, **trident))
    assert set(found.sizes(grid=False)) == {4 if factor == 1 else 1}
    np.testing.assert_allclose(found.mean(np.arange(20)) + side / 2, made.coords)
    clam = {"patch_size": 8, "patch_level": factor - 1, "downsample": np.array([float(factor)] * 2)}
    again = read(made, patches(tmp_path / "b.h5", corners, vectors, **clam))
    np.testing.assert_array_equal(again.rows, found.rows)
    assert found.places is not None
    np.testing.assert_allclose(found.places, corners[found.rows] + side / 2)


def test_chunked_files_read_the_same(made, tmp_path):
    path = made.vectors(tmp_path / "a.h5", features=None)
    with h5py.File(path, "a") as file:
        file.create_dataset("features", data=made.features, chunks=(4, 6), compression="gzip")
    np.testing.assert_array_equal(read(made, path).mean(np.array([7, 7, 2])), made.features[[7, 7, 2]])


BROKEN = {
    "one vector for the whole slide": {"features": np.zeros(6), "grid": None},
    "holds no patch at all": {"features": np.zeros((0, 6)), "grid": None},
    "must have the shape": {"features": np.zeros((2, 3, 4)), "grid": None},
    "'grid' of shape": {"grid": np.zeros((19, 4, 6))},
    "'coords' of shape": {"coords": np.zeros((20, 3))},
    "are there twice": {"barcodes": np.array([b"x"] * 20)},
    "20 of 20 spots have no features": {"barcodes": np.array([f"x{k}".encode() for k in range(20)])},
    "an array 'features' or 'embeddings'": {"features": None},
    "must hold numbers": {"features": np.array([b"a"] * 20), "grid": None},
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_does_not_fit_is_named(made, tmp_path, message):
    path = made.vectors(tmp_path / "a.h5", **BROKEN[message])
    with pytest.raises(InputError, match=rf"a\.h5.*{message}"):
        read(made, path)


def test_patches_of_another_slide(made, tmp_path):
    path = patches(tmp_path / "a.h5", np.array([[5000, 5000]]), np.zeros((1, 6)), patch_size=8)
    with pytest.raises(InputError, match="20 of 20 spots have no patch near them"):
        read(made, path)


def test_a_vector_that_is_not_finite(made, tmp_path):
    made.features[4, 2] = np.nan
    found = read(made, made.vectors(tmp_path / "a.h5"))
    found.take(np.arange(4))
    with pytest.raises(InputError, match="not a finite number"):
        found.take(np.arange(5))


def test_means_of_several(made):
    store = np.arange(8.0).reshape(4, 2)
    found = Vectors(store, np.array([0, 1, 3, 2]), np.array([0, 2, 4]))
    np.testing.assert_array_equal(found.mean(np.array([1, 0])), [store[[3, 2]].mean(0), store[[0, 1]].mean(0)])


def test_runs():
    assert runs(np.array([5, 0]), np.array([2, 3])).tolist() == [5, 6, 0, 1, 2]
    assert runs(np.empty(0, np.intp), np.empty(0, np.intp)).tolist() == []
