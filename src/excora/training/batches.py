"""Which samples share a step: a pure function of seed and epoch, so that a resumed run meets the batches it would have.

The global batch of a step is drawn first and then dealt: a slice to each rank, and of a slice that is too large for
memory a piece at a time. Ranks and pieces never change which samples a loss is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, Sampler

from excora.data.dataset import Batch, Features, Index, none_of
from excora.errors import ExcoraError

#: Samples of a batch that is only evaluated, at most.
EVALUATED = 1024


def shuffled(index: Index, size: int, *, seed: int, epoch: int) -> list[Index]:
    """The global batches of an epoch, ``size`` samples each; the rest is the last batch, one left over joins it.

    >>> [len(batch) for batch in shuffled(np.arange(11), 5, seed=0, epoch=0)]
    [5, 6]
    """
    order = np.random.default_rng([seed, epoch]).permutation(index)
    ends = list(range(size, len(order), size))
    # A single sample has no correlation: its step would be one of MSE alone.
    if ends and len(order) - ends[-1] == 1:
        ends.pop()
    return np.split(order, ends)


def in_order(index: Index, sizes: Index, *, max_elements: int, most: int = EVALUATED) -> list[Index]:
    """``index`` cut into runs of at most ``most`` samples and ``max_elements`` elements; a larger sample goes alone.

    >>> [piece.tolist() for piece in in_order(np.arange(4), np.array([3, 4, 9, 1]), max_elements=8)]
    [[0, 1], [2], [3]]
    """
    pieces, start, elements = [], 0, 0
    for position, size in enumerate(sizes[index].tolist()):
        if position > start and (elements + size > max_elements or position - start >= most):
            pieces.append(index[start:position])
            start, elements = position, 0
        elements += size
    return [*pieces, index[start:]]


def cut(index: Index, sizes: Index, *, pieces: int, max_elements: int) -> list[Index]:
    """A batch in at least ``pieces`` pieces (fewer samples: one each), samples of similar size together.

    >>> [piece.tolist() for piece in cut(np.arange(4), np.array([9, 1, 8, 2]), pieces=2, max_elements=100)]
    [[1, 3], [2, 0]]
    """
    if pieces == 1 and int(sizes[index].sum()) <= max_elements:
        return [index]
    ordered = index[np.argsort(sizes[index], kind="stable")]
    return in_order(ordered, sizes, max_elements=max_elements, most=max(-(-len(index) // pieces), 1))


def largest(index: Index, sizes: Index, batch: int) -> int:
    """Elements of the largest batch that could be drawn; one left over may join it."""
    return int(np.sort(sizes[index])[-(batch + 1) :].sum())


class Steps(Sampler[list[Index]]):
    """The steps of this rank: of each global batch its slice, in pieces.

    ``batches`` gives the global batches anew each time, so that it may ask which epoch it is.
    """

    def __init__(
        self, batches: Callable[[], list[Index]], divide: Callable[[Index], list[Index]], *, rank: int, world: int
    ) -> None:
        self.batches, self.divide, self.rank, self.world = batches, divide, rank, world

    def __len__(self) -> int:
        return len(self.batches())

    def __iter__(self) -> Iterator[list[Index]]:
        for batch in self.batches():
            yield self.divide(np.array_split(batch, self.world)[self.rank])


class Rows(Dataset[Batch | list[Index] | ExcoraError]):
    """Features with their standardised targets, NaN where unknown, and weights, read a batch at a time."""

    def __init__(self, features: Features, target: NDArray[np.float32], weight: NDArray[np.float32] | None) -> None:
        self.features = features
        known = np.isfinite(target)
        self.target = torch.from_numpy(target if known.all() else np.where(known, target, np.float32(0.0)))
        self.known = None if known.all() else torch.from_numpy(known)
        self.weight = None if weight is None else torch.from_numpy(weight)

    def __getitem__(self, pieces: list[Index]) -> Batch | list[Index] | ExcoraError:
        """A step in one piece is read here, by a loader's worker if there is one; several are read one at a time.

        What is wrong with the data is returned, not raised: a loader would bury its message in a worker's traceback.
        """
        try:
            return self.read(pieces[0]) if len(pieces) == 1 else pieces
        except ExcoraError as error:
            return error

    def labels(self, index: Index) -> NDArray[np.float64]:
        """The targets of ``index`` (n, targets), NaN where unknown."""
        known = True if self.known is None else self.known.numpy()[index]
        return np.where(known, self.target.numpy()[index], np.nan).astype(np.float64)

    def read(self, index: Index) -> Batch:
        """The samples of ``index``; none is an empty batch, for a rank that has none of a small last batch."""
        inputs = self.features.read(index) if len(index) else none_of(self.features.read(np.zeros(1, np.intp)))
        rows = torch.from_numpy(index)
        known, weight = (None if x is None else x[rows] for x in (self.known, self.weight))
        return Batch(inputs, self.target[rows], known, weight, rows)


def step_seed(seed: int, epoch: int, step: int, rank: int) -> int:
    """A seed for the random numbers of one step on one rank (dropout)."""
    return int(np.random.SeedSequence([seed, epoch, step, rank]).generate_state(1)[0])
