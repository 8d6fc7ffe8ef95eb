"""Patch features of a slide, as others have computed them: which vectors belong to which spot, read from disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Index
from excora.data.hdf5 import StoredRows, complaints, numbers, open_hdf5, stored, texts
from excora.errors import InputError
from excora.storage import fingerprint

Floats = NDArray[np.float64]
#: Names of the vectors, of the spots, in the order in which they are looked for.
VECTORS, SPOTS = ("features", "embeddings"), ("barcodes", "barcode")


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors of the spots of one slide: ``rows[starts[k]:starts[k + 1]]`` of ``store`` are those of spot k.

    >>> one = Vectors(np.arange(6.0).reshape(3, 2), np.array([2, 0]), np.array([0, 1, 2]))
    >>> one.take(np.array([0]))[0].tolist(), one.mean(np.array([1])).tolist()
    ([[4.0, 5.0]], [[0.0, 1.0]])
    """

    store: Any  #: (vectors, d), an array or :class:`StoredRows`
    rows: Index
    starts: Index  #: (spots + 1,)
    grid: Any = None  #: (vectors, patches, d): the same in parts
    places: Floats | None = None  #: (len(rows), 2) where the centres of vectors lie, in pixels; None: at their spots
    name: str = "features"

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.store.shape[1])

    def sizes(self, *, grid: bool) -> Index:
        """(spots,) how many vectors a spot has."""
        patches = self.grid.shape[1] if grid and self.grid is not None else 1
        return np.diff(self.starts) * patches

    def take(self, spots: Index, *, grid: bool = False) -> tuple[NDArray[np.float32], Index]:
        """The vectors of some spots end to end, (total, d), and how many each has."""
        lengths = np.diff(self.starts)[spots]
        rows = self.rows[runs(self.starts[spots], lengths)]
        if grid and self.grid is not None:
            found = self.grid[rows]
            lengths = lengths * found.shape[1]
            found = found.reshape(-1, found.shape[-1])
        else:
            found = self.store[rows]
        with np.errstate(over="ignore"):
            values = np.asarray(found, np.float32)
        if not np.isfinite(values).all():
            raise InputError(f"{self.name}: a feature is not a finite number; compute the features of this slide again")
        return values, lengths

    def mean(self, spots: Index) -> NDArray[np.float32]:
        """One vector a spot, (spots, d): the mean of its own."""
        values, lengths = self.take(spots)
        if (lengths == 1).all():
            return values
        sums = np.add.reduceat(values.astype(np.float64), np.concatenate([[0], lengths.cumsum()[:-1]]))
        return np.asarray(sums / lengths[:, None], np.float32)

    def key(self) -> str:
        """A hash of some of them, evenly spread."""
        some = np.unique(np.linspace(0, len(self.store) - 1, 16).astype(np.intp))
        return fingerprint(np.asarray(self.store[some], np.float32))


def runs(starts: Index, lengths: Index) -> Index:
    """starts[k], starts[k] + 1, ... of each length, end to end."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(starts - (ends - lengths), lengths) + np.arange(total), np.intp)


def read_vectors(path: Path, barcodes: NDArray[np.object_], coords: Floats, pitch: float) -> Vectors:
    """The patch features in an .h5 file, matched to spots by their barcodes, or else by where they lie.

    Layouts: ``features`` (n, d) with ``coords`` and ``barcodes``, and ``grid`` (n, patches, d) where there is one;
    HEST's ``embeddings``; CLAM's and TRIDENT's ``features`` with the corners of patches in ``coords``.
    """
    with complaints(path, "HDF5"), open_hdf5(path) as file:
        have = set(file)
        key = next((name for name in VECTORS if name in have), None)
        if key is None:
            there = ", ".join(sorted(have)[:8]) or "nothing"
            raise InputError(f"{path}: expected patch features, an array 'features' or 'embeddings', got {there}")
        named = next((name for name in SPOTS if name in have), None)
        names = None if named is None else texts(path, stored(path, file, named), named)
        where = stored(path, file, "coords") if "coords" in have else None
        corner = None if where is None else numbers(path, where, "coords").astype(np.float64)
        patch = None if where is None else _patch(where.attrs)
    store = StoredRows(path, key)
    grid = StoredRows(path, "grid") if "grid" in have else None
    _check_shapes(path, store, grid, names, corner)
    if names is not None:
        rows = _by_name(path, names.ravel(), barcodes)
        return Vectors(store, rows, np.arange(len(rows) + 1), grid, name=str(path))
    if corner is None:
        if len(store) != len(barcodes):
            raise InputError(
                f"{path}: {len(store)} vectors for {len(barcodes)} spots, and neither 'barcodes' nor 'coords' say which"
            )
        return Vectors(store, np.arange(len(store)), np.arange(len(store) + 1), grid, name=str(path))
    return _by_place(path, store, grid, corner + (patch or 0.0) / 2, coords, pitch, patch)


def _check_shapes(path: Path, store: StoredRows, grid: StoredRows | None, names: Any, corner: Any) -> None:
    if len(store.shape) == 1 and store.shape[0]:
        raise InputError(
            f"{path}: one vector for the whole slide ({store.shape[0]},): spots need patch features (n, d)"
        )
    if not len(store):
        raise InputError(
            f"{path}: the file holds no patch at all: this slide was empty when its features were computed"
        )
    if len(store.shape) != 2:
        raise InputError(f"{path}: patch features must have the shape (n, d), got {store.shape}")
    n, width = store.shape
    wrong = [("grid", grid.shape)] if grid is not None and (len(grid.shape), grid.shape[0], grid.shape[2:]) != (
        3, n, (width,)) else []  # fmt: skip
    wrong += [("barcodes", names.shape)] if names is not None and names.size != n else []
    wrong += [("coords", corner.shape)] if corner is not None and corner.shape != (n, 2) else []
    for name, shape in wrong:
        raise InputError(f"{path}: {name!r} of shape {shape} does not fit features of shape {(n, width)}")


def _patch(attributes: Any) -> float | None:
    """The side of a patch in full-resolution pixels; None: ``coords`` are centres.

    On a 40x slide a patch of 256 pixels at 20x covers 512 of full resolution: ``patch_size_level0`` says so.
    """
    for name in ("patch_size_level0", "patch_size"):
        if name in attributes:
            side = float(np.asarray(attributes[name]).ravel()[0])
            if name == "patch_size" and "downsample" in attributes:  # CLAM: of the level that patches are cut at
                side *= float(np.asarray(attributes["downsample"]).ravel()[0])
            return side
    return None


def _by_name(path: Path, names: NDArray[np.object_], barcodes: NDArray[np.object_]) -> Index:
    place = {name: k for k, name in enumerate(names)}
    if len(place) != len(names):
        raise InputError(f"{path}: {len(names) - len(place)} of its barcodes are there twice")
    absent = [code for code in barcodes if code not in place]
    if absent:
        raise InputError(
            f"{path}: {len(absent)} of {len(barcodes)} spots have no features, the first is {absent[0]!r} (the file "
            f"has {names[0]!r}, ...): compute the features of this slide again"
        )
    return np.array([place[code] for code in barcodes], np.intp)


def _by_place(
    path: Path, store: Any, grid: Any, centres: Floats, coords: Floats, pitch: float, patch: float | None
) -> Vectors:
    """The patches whose centres lie in the square of a spot's pitch, or the nearest one."""
    from scipy.spatial import cKDTree

    tree = cKDTree(centres)
    reach = max(pitch, patch or 0.0) / 2
    near = tree.query_ball_point(coords, reach, p=np.inf, return_sorted=True)
    distance, nearest = tree.query(coords, p=np.inf)
    lost = distance > max(pitch, patch or 0.0)
    if lost.any():
        k = int(lost.argmax())
        raise InputError(
            f"{path}: {int(lost.sum())} of {len(coords)} spots have no patch near them, the first at "
            f"({coords[k, 0]:.0f}, {coords[k, 1]:.0f}): are these features of another slide, or at another resolution?"
        )
    lists = [found or [int(one)] for found, one in zip(near, nearest, strict=True)]
    starts = np.concatenate([[0], np.cumsum([len(found) for found in lists])])
    rows = np.concatenate(lists).astype(np.intp)
    return Vectors(store, rows, starts, grid, centres[rows], str(path))
