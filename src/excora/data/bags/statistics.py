"""Statistics over the elements of bags, one bag in memory at a time."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.stores import Bags
from excora.data.dataset import Index
from excora.data.scaling import Floats, far_outside
from excora.errors import InputError

#: Training bags that the statistics of the features are taken from.
MOST_BAGS = 1000


@dataclass(frozen=True)
class ElementStatistics:
    """Mean, standard deviation (1 for a constant), minimum and maximum of each feature over training elements."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def learn(cls, bags: Bags, index: Index) -> ElementStatistics:
        """From the bags of ``index``, a fixed random choice of :data:`MOST_BAGS` if there are more; Chan's merge.

        >>> from excora.data.bags.stores import ArrayBags
        >>> ElementStatistics.learn(ArrayBags(np.array([[1.0], [2.0], [6.0]]), [1, 2]), np.arange(2)).mean
        (3.0,)
        """
        chosen = np.asarray(index)
        if len(chosen) > MOST_BAGS:
            chosen = np.sort(np.random.default_rng(0).choice(chosen, MOST_BAGS, replace=False))
        count, mean, square = 0, np.zeros(bags.width), np.zeros(bags.width)
        low, high = np.full(bags.width, np.inf), np.full(bags.width, -np.inf)
        for place in chosen:
            for block in _blocks(bags.read(int(place))):
                centre = block.mean(0)
                gap, total = centre - mean, count + len(block)
                square += np.square(block - centre).sum(0) + gap**2 * (count * len(block) / total)
                mean += gap * (len(block) / total)
                count = total
                low, high = np.minimum(low, block.min(0)), np.maximum(high, block.max(0))
        if not count:
            raise InputError("the bags of the training part have no elements")
        std = np.where(low == high, 1.0, np.sqrt(square / count))
        std[std == 0] = 1.0
        return cls(*(tuple(values.tolist()) for values in (mean, std, low, high)))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ElementStatistics:
        """What ``dataclasses.asdict`` gave; anything else is a ValueError, TypeError or KeyError."""
        rows = {name: tuple(map(float, values[name])) for name in ("mean", "std", "low", "high")}
        if len({len(row) for row in rows.values()} | {0}) != 2:
            raise ValueError("each feature has a mean, a std, a low and a high")
        if not np.isfinite(list(rows.values())).all() or min(rows["std"]) <= 0:
            raise ValueError("statistics of elements are finite, and deviations above 0")
        return cls(**rows)

    @property
    def constant(self) -> int:
        """How many features never change."""
        return sum(low == high for low, high in zip(self.low, self.high, strict=True))

    def outside(self, bags: Bags, index: Index) -> NDArray[np.int64]:
        """For each bag of ``index``, the features of which an element lies far outside the training range."""
        found = np.zeros(len(index), np.int64)
        for k, place in enumerate(index):
            bag = bags.read(int(place))
            ends = np.stack([bag.min(0), bag.max(0)]).astype(np.float64)
            found[k] = far_outside(ends, self.low, self.high).any(0).sum()
        return found

    def standardised(self, rows: Floats) -> Floats:
        """The rows of :func:`summaries` in units of the training elements."""
        mean, std = np.array(self.mean), np.array(self.std)
        shift = np.concatenate([mean, np.zeros_like(mean), mean, mean])
        return np.column_stack([(rows[:, :-1] - shift) / np.tile(std, 4), rows[:, -1]])


_SUMMARIES: weakref.WeakKeyDictionary[Any, Floats] = weakref.WeakKeyDictionary()


def summaries(bags: Bags) -> Floats:
    """Mean, std, min, max of each feature over a bag's elements, and the log of their number: (n, 4 width + 1).

    Kept as long as the bags are: every fold asks for it, and it means reading every bag.
    """
    found = _SUMMARIES.get(bags)
    if found is None:
        found = np.empty((len(bags.lengths), 4 * bags.width + 1))
        for place in range(len(found)):
            bag = bags.read(place)
            mean = bag.mean(0, dtype=np.float64)
            square = sum(np.square(block - mean).sum(0) for block in _blocks(bag)) / len(bag)
            found[place] = np.concatenate([mean, np.sqrt(square), bag.min(0), bag.max(0), [np.log(len(bag))]])
        _SUMMARIES[bags] = found
    return found


def _blocks(bag: NDArray[np.float32]) -> Iterator[Floats]:
    """A bag in float64, 8 MB at a time."""
    step = max(1, 2**20 // bag.shape[1])
    for start in range(0, len(bag), step):
        yield bag[start : start + step].astype(np.float64)
