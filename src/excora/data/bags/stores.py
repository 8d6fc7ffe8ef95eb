"""Where the elements of bags lie: in memory or on disk; safe in data-loader workers, which share no open file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.files import read_elements, read_positions
from excora.data.dataset import Index
from excora.errors import InputError


class Bags(Protocol):
    """Bags on disk or in memory, read one or some at a time."""

    lengths: Index  #: elements of each bag
    width: int  #: features of an element

    def read(self, index: int) -> NDArray[np.float32]:
        """The elements of one bag, (lengths[index], width), finite."""
        ...

    def gather(self, index: Index) -> NDArray[np.float32]:
        """A copy of the elements of some bags, at least one, end to end."""
        return np.concatenate([self.read(int(place)) for place in index])

    def positions(self, index: int) -> NDArray[np.float64] | None:  # noqa: ARG002
        """Where the elements of one bag lie, (lengths[index], 2); None where nobody knows."""
        return None


class ArrayBags(Bags):
    """Bags end to end in one array, in memory or memory-mapped: ``values`` (total, width), ``lengths`` (bags,).

    >>> bags = ArrayBags(np.arange(6.0).reshape(3, 2), [1, 2])
    >>> bags.width, bags.read(1).tolist()
    (2, [[2.0, 3.0], [4.0, 5.0]])

    Lengths below 0 or of another sum are refused; a bag of 0 elements can be held, and what uses it decides.
    """

    def __init__(self, values: NDArray[Any], lengths: Any, names: Sequence[str] | None = None) -> None:
        found = np.asarray(lengths)
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise InputError(f"values must be numbers of shape (total, width), got {values.dtype} of {values.shape}")
        if found.ndim != 1 or found.dtype.kind not in "iu" or (found < 0).any() or found.sum() != len(values):
            raise InputError(
                f"lengths must be whole numbers >= 0 that sum to the {len(values)} rows of values, got {found.dtype} "
                f"of shape {found.shape}" + (f" and sum {found.sum()}" if found.dtype.kind in "iu" else "")
            )
        self.values, self.lengths, self.width = values, found.astype(np.intp), values.shape[1]
        self._stops = self.lengths.cumsum()
        self._names = names

    def read(self, index: int) -> NDArray[np.float32]:
        """A copy of one bag, (lengths[index], width) float32; NaN or inf is an InputError that names the bag."""
        stop = self._stops[index]
        name = str(index) if self._names is None else self._names[index]
        return finite(self.values[stop - self.lengths[index] : stop], f"bag {name!r}")

    def gather(self, index: Index) -> NDArray[np.float32]:
        """Some bags end to end, checked at once: they may be small, and a call of numpy costs more than their work."""
        stops = self._stops[index]
        places = zip((stops - self.lengths[index]).tolist(), stops.tolist(), strict=True)
        with np.errstate(over="ignore"):
            found = np.concatenate([self.values[start:stop] for start, stop in places], dtype=np.float32)
        if not np.isfinite(found).all():
            return super().gather(index)  # an error that names the bag
        return found


class PickedBags(Bags):
    """Some features of other bags, in an order of one's own: feature k is feature ``columns[k]`` there."""

    def __init__(self, bags: Bags, columns: Sequence[int]) -> None:
        self._bags, self._columns = bags, np.asarray(columns, np.intp)
        self.lengths, self.width = bags.lengths, len(columns)

    def read(self, index: int) -> NDArray[np.float32]:
        """One bag, (lengths[index], width)."""
        return self._bags.read(index)[:, self._columns]

    def gather(self, index: Index) -> NDArray[np.float32]:
        """Some bags end to end."""
        return self._bags.gather(index).take(self._columns, 1)

    def positions(self, index: int) -> NDArray[np.float64] | None:
        """Of one bag."""
        return self._bags.positions(index)


class ChosenBags(Bags):
    """Some bags of others, in an order of one's own: a view, nothing is copied."""

    def __init__(self, bags: Bags, index: Index) -> None:
        self._bags: Bags = bags
        self._index: Index = np.asarray(index)
        if isinstance(bags, ChosenBags):  # a choice of a choice reads no slower
            self._bags, self._index = bags._bags, bags._index[index]
        self.lengths, self.width = bags.lengths[index], bags.width

    def read(self, index: int) -> NDArray[np.float32]:
        """The elements of one bag."""
        return self._bags.read(int(self._index[index]))

    def gather(self, index: Index) -> NDArray[np.float32]:
        """Some bags end to end."""
        return self._bags.gather(self._index[index])

    def positions(self, index: int) -> NDArray[np.float64] | None:
        """Of one bag."""
        return self._bags.positions(int(self._index[index]))


class JoinedBags(Bags):
    """Bags that are several others each, end to end: the slides of a patient. ``parts``: which, for each bag.

    >>> single = ArrayBags(np.arange(3.0)[:, None], [1, 2])
    >>> JoinedBags(single, [[1, 0]]).read(0).ravel().tolist()
    [1.0, 2.0, 0.0]
    """

    def __init__(self, bags: Bags, parts: Sequence[Sequence[int]]) -> None:
        self._bags, self._parts = bags, [np.asarray(part, np.intp) for part in parts]
        self.lengths = np.array([bags.lengths[part].sum() for part in self._parts], np.intp)
        self.width = bags.width

    def read(self, index: int) -> NDArray[np.float32]:
        """The elements of one bag."""
        return self._bags.gather(self._parts[index])

    def positions(self, index: int) -> NDArray[np.float64] | None:
        """Of a bag that is one of the others; two slides have no common place."""
        part = self._parts[index]
        return self._bags.positions(int(part[0])) if len(part) == 1 else None


class FileBags(Bags):
    """One file a bag, opened, read and closed at each call; ``lengths`` and ``width`` come from the headers."""

    def __init__(self, paths: Sequence[Path], keys: Sequence[str], lengths: Index, width: int) -> None:
        self.paths, self.keys, self.lengths, self.width = list(paths), list(keys), lengths, width

    def read(self, index: int) -> NDArray[np.float32]:
        """One bag, (lengths[index], width) float32; NaN, inf or a file that has changed is an InputError naming it."""
        path = self.paths[index]
        stored = read_elements(path, self.keys[index])
        wanted = (int(self.lengths[index]), self.width)
        if stored.shape != wanted or stored.dtype.kind not in "fiub":
            raise InputError(f"{path}: expected numbers of shape {wanted}, got {stored.dtype} of shape {stored.shape}")
        return finite(stored, str(path))

    def positions(self, index: int) -> NDArray[np.float64] | None:
        """As the file has them beside the features."""
        return read_positions(self.paths[index], int(self.lengths[index]))


def finite(values: NDArray[Any], name: str) -> NDArray[np.float32]:
    """A float32 copy; the first element that is not finite (or too large for float32) is an InputError."""
    with np.errstate(over="ignore"):
        found = np.array(values, np.float32)
    good = np.isfinite(found)
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise InputError(
            f"{name}: element {row}, feature {column} is {values[row, column]}; every feature must be a finite "
            f"number of single precision: correct the file or leave it out"
        )
    return found
