"""One slide as the user has it: spots with their places, counts, picture, and patch features."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Index
from excora.data.spatial.pictures import Picture, Pixels
from excora.data.spatial.vectors import Vectors
from excora.errors import InputError

Floats = NDArray[np.float64]
Objects = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Slide:
    """Spots (n,) of one slide. Coordinates are centres, (x, y), in pixels of full resolution."""

    name: str
    barcodes: Objects
    coords: Floats  #: (n, 2)
    genes: tuple[str, ...] = ()
    counts: Any = None  #: scipy's csr, (n, genes); None: there are none to learn from
    #: Whether a gene that is not among ``genes`` was not measured; tables of counts leave out what was never seen.
    complete: bool = True
    picture: Picture | None = None
    vectors: Vectors | None = None
    about: dict[str, Any] = field(default_factory=dict)  #: columns a spot (n,), or one word for all: patient, ...
    normalised: bool = False  #: ``counts`` are no counts: somebody has transformed them, and they stay as they are
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.barcodes)

    @functools.cached_property
    def pitch(self) -> float:
        """How far apart neighbouring spots are: the median distance to the nearest, in pixels."""
        from scipy.spatial import cKDTree

        if len(self) < 2:
            return 1.0
        distance = np.asarray(cKDTree(self.coords).query(self.coords, k=2)[0])[:, 1]
        return float(np.median(distance)) or 1.0

    @functools.cached_property
    def key(self) -> str:
        """What tells it from others, whatever its name: a hash of its picture, else of features, else of places."""
        if self.picture is not None:
            return self.picture.key()
        if self.vectors is not None:
            return self.vectors.key()
        return hashlib.sha256(np.ascontiguousarray(self.coords).tobytes()).hexdigest()

    @functools.cached_property
    def place_of_gene(self) -> dict[str, int]:
        """Where a gene stands in ``counts``."""
        return {name: k for k, name in enumerate(self.genes)}

    @functools.cached_property
    def totals(self) -> Floats:
        """(n,) the counts of a spot, over all genes."""
        return np.asarray(self.counts.sum(1, dtype=np.float64)).ravel()

    def nearest(self, spots: Index, k: int) -> Index:
        """(spots, k) the nearest other spots, nearest first; fewer columns where the slide has fewer."""
        from scipy.spatial import cKDTree

        k = min(k, len(self) - 1)
        if k < 1:
            return np.empty((len(spots), 0), np.intp)
        found = np.asarray(cKDTree(self.coords).query(self.coords[spots], k=k + 1)[1]).reshape(len(spots), k + 1)
        own = found == spots[:, None]
        own[~own.any(1), -1] = True  # two spots in one place
        return np.asarray(found[~own].reshape(len(spots), k), np.intp)

    def tissue(self, most: int = 1200) -> tuple[Pixels, float] | None:
        """The picture, small, and its pixels for one of full resolution; None without one."""
        return None if self.picture is None else self.picture.thumbnail(most)


def check_slide(slide: Slide, problems: list[str]) -> None:
    """Note what is wrong with spots, counts, and how they fit the picture; a line each."""
    before = len(problems)
    if not len(slide):
        problems.append(f"{slide.name}: the slide has no spots")
        return
    if slide.coords.shape != (len(slide), 2) or not np.isfinite(slide.coords).all():
        problems.append(f"{slide.name}: every spot needs two finite coordinates, got shape {slide.coords.shape}")
    seen, times = np.unique(slide.barcodes.astype(str), return_counts=True)
    if (times > 1).any():
        many = int((times > 1).sum())
        problems.append(
            f"{slide.name}: {many} barcodes are there more than once, the first is {str(seen[times > 1][0])!r}"
        )
    if slide.counts is not None:
        _check_counts(slide, problems)
    if slide.picture is not None and len(problems) == before:
        _check_places(slide, slide.picture, problems)


def _check_counts(slide: Slide, problems: list[str]) -> None:
    values = slide.counts.data
    wrong = ~np.isfinite(values) | (values < 0)
    if not wrong.any():
        return
    place = int(wrong.argmax())
    row = int(np.searchsorted(slide.counts.indptr, place, side="right")) - 1
    gene = slide.genes[int(slide.counts.indices[place])]
    hint = "; keep raw counts in layers['counts']" if (values < 0).any() else ""
    problems.append(
        f"{slide.name}: counts must be finite and not negative, got {values[place]:g} for gene {gene!r} in spot "
        f"{slide.barcodes[row]!r} ({int(wrong.sum()):,} such values){hint}"
    )


def _check_places(slide: Slide, picture: Picture, problems: list[str]) -> None:
    """A spot lies in the picture; if few do, say what it looks like: x and y swapped, or another resolution."""
    width, height = (side / picture.scale for side in picture.size)

    def outside(coords: Floats) -> NDArray[np.bool_]:
        return np.asarray((coords < 0).any(1) | (coords[:, 0] > width) | (coords[:, 1] > height))

    wrong = outside(slide.coords)
    if not wrong.any():
        return
    x, y = slide.coords[int(wrong.argmax())]
    message = (
        f"{slide.name}: {int(wrong.sum())} of {len(slide)} spots lie outside the image, the first is "
        f"{slide.barcodes[int(wrong.argmax())]!r} at ({x:.0f}, {y:.0f}); the image {picture.name} covers "
        f"{width:.0f} x {height:.0f} pixels of full resolution"
    )
    swapped = outside(slide.coords[:, ::-1])
    factor = float((slide.coords.max(0) / (width, height)).max())
    if not swapped.any():
        message += "; x and y look swapped"
    elif factor > 1.5:
        message += f"; is it a smaller copy (about {factor:.3g} times) of the one that the coordinates refer to?"
    problems.append(message + ": give the image that belongs to these coordinates")


def refuse(problems: list[str]) -> None:
    """All at once."""
    from excora.errors import DataError

    if problems:
        raise DataError(problems)


def unique(names: list[str]) -> tuple[str, ...]:
    """Names made unique as AnnData does: the second of a name gets -1, the third -2.

    >>> unique(["a", "b", "a"])
    ('a', 'b', 'a-1')
    """
    taken, times, found = set(names), dict[str, int](), []
    for name in names:
        if name not in times:
            times[name] = 0
            found.append(name)
            continue
        while (other := f"{name}-{times[name] + 1}") in taken:
            times[name] += 1
        times[name] += 1
        taken.add(other)
        found.append(other)
    return tuple(found)


def matrix_of(path: Any, parts: Sequence[Any], shape: tuple[int, int]) -> Any:
    """A csr matrix of a stranger's data, indices and indptr; parts that do not fit are an InputError."""
    from scipy.sparse import csr_matrix

    (data, indices, indptr), (rows, columns) = parts, shape
    fine = (
        len(indptr) == rows + 1 and indptr[0] == 0 and indptr[-1] == len(data) == len(indices)
        and (np.diff(indptr) >= 0).all() and (not len(indices) or (indices.min() >= 0 and indices.max() < columns))
    )  # fmt: skip
    if not fine:
        raise InputError(f"{path}: the count matrix is damaged: its parts do not fit the shape {shape}")
    found = csr_matrix((narrow(data), indices.astype(np.int32), indptr), shape)
    found.sum_duplicates()
    return found


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Counts in single precision where that loses nothing: half the memory."""
    single = values.astype(np.float32)
    return single if np.array_equal(single, values, equal_nan=True) else values.astype(np.float64)
