"""Boosted trees on what a line leaves of the labels: each fold's rows are told what trees without them say.

    f_0 = 0,   f_t = f_(t-1) + rate tree_t,   tree_t fitted to r - f_(t-1) on a draw of rows

Thresholds are drawn, not sought (Geurts, Ernst and Wehenkel, 2006), which is quick and varies the trees. No trees are
fitted to all rows: a new row is told the mean of what the trees of all folds say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import MissingExtraError
from excora.models.parts.trees import DEPTH, Grown, Trees, joined

#: Rows from which trees are tried.
FEWEST = 100
#: Of a step.
RATE = 0.1
#: Least number of rows of a leaf and most steps from a root to it, what is chosen from.
SHAPES = ((5, 10), (30, 10))
#: Tried too where rows are many. It learns fast, stops early and costs most: it has to be ahead by so much.
DEEP, LEAD = (2, DEPTH), 0.05
#: Trees of a round, rounds at most, rounds without a gain on left-out rows after which there are no more, and the
#: share of the error that is too small a gain to go on.
ROUND, ROUNDS, PATIENCE, GAIN = 25, 12, 2, 1e-3
#: Rows from which steps are half as long, and rounds have twice the trees: with many rows that is what still gains.
#: The line is then chosen by a round of the first shape, the shape by so many.
LARGE, LOOKED = 8000, 3
#: Rows of a tree, at most (else half of them), and cells (rows x columns), at most.
DRAWN, CELLS = 8000, 1_000_000


def pace(rows: int) -> tuple[float, int]:
    """The length of a step, and the trees of a round.

    >>> pace(1000), pace(20_000)
    ((0.1, 25), (0.05, 50))
    """
    return (RATE / 2, 2 * ROUND) if rows >= LARGE else (RATE, ROUND)


class Boosted(NamedTuple):
    """What was grown, on the residual of one of several lines."""

    parent: int  #: the number of the line
    trees: Trees  #: their sum is the mean over folds, to be added to the line
    residual: Tensor  #: (n, targets) of the line and the trees of the folds without the row


def boost(
    x: Tensor, offset: int, residuals: Sequence[Tensor], known: Tensor, weight: Tensor, fold: Tensor,
    *, seed: int, seconds: float, threads: int = 1,
) -> Boosted | None:  # fmt: skip
    """Trees on the channels of ``x`` (n, channels) from ``offset`` on, for the line whose residual they shrink most.

    ``residuals`` (n, targets) of each line, ``known`` where they are known, ``weight`` (n,), ``fold`` (n,). The first
    round is grown on each line in each shape (with many rows less is tried); what has the least squared error on
    left-out rows goes on, until :data:`PATIENCE` rounds bring no gain, one brings next to none, or ``seconds`` are
    over. Folds are grown on ``threads``, which changes nothing else. None where rows are few, there is one fold, or no
    round brings a gain.
    """
    columns = np.ascontiguousarray(x[:, offset:].numpy(), np.float32)
    if len(x) < FEWEST or not int(fold.max()) or not columns.shape[1]:
        return None
    begun, heavy = time.monotonic(), (known * weight.unsqueeze(1)).double().numpy()
    rows = Rows(columns, known.numpy(), weight.double().numpy(), fold.numpy())
    labels = [torch.where(known, residual, 0.0).double().numpy() for residual in residuals]
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        parent, found = (_shape_for_many if len(x) >= LARGE else _shape)(rows, labels, heavy, seed, pool)
        best, kept, rounds = float((heavy * found.label**2).sum()), np.zeros_like(found.label), 0
        for number in range(1, ROUNDS + 1):
            found.go_on(pool, number)
            before = best
            if (error := found.error(heavy, number)) < best:
                best, kept, rounds = error, found.left_out[number - 1], number
            slow = (1 - GAIN) * before < best < before
            if slow or number - rounds >= PATIENCE or time.monotonic() - begun > seconds:
                break
    if not rounds:
        return None
    rate, size = pace(len(x))
    trees = joined([tree for grown in found.grown for tree in grown[: rounds * size]], offset)
    trees = trees._replace(value=trees.value * (rate / len(found.grown)))
    return Boosted(parent, trees, residuals[parent] - torch.from_numpy(kept).float())


def _shape(
    rows: Rows, labels: Sequence[NDArray[np.float64]], heavy: NDArray[np.float64], seed: int, pool: ThreadPoolExecutor
) -> tuple[int, Growing]:
    """The number of the line whose residual is grown on, and the first trees in the shape that is best there."""
    tried = [(k, Growing(rows, label, shape, seed)) for k, label in enumerate(labels) for shape in SHAPES]
    for _, one in tried:
        one.go_on(pool, 1)
    return min(tried, key=lambda pair: pair[1].error(heavy, 1))


def _shape_for_many(
    rows: Rows, labels: Sequence[NDArray[np.float64]], heavy: NDArray[np.float64], seed: int, pool: ThreadPoolExecutor
) -> tuple[int, Growing]:
    """As :func:`_shape`, on two folds (of two: one) that are left out together, and with what the mean over all gains.

    One fold's trees have the error b + d, the mean of two b + d / 2, of all b + d / folds: trees that vary much, with
    small leaves, look worse alone than they are.
    """
    count = int(rows.fold.max()) + 1
    held = np.isin(rows.fold, (0, count // 2) if count > 2 else 0)
    apart = rows._replace(fold=np.where(held, 0, 1))

    def error(k: int, shape: tuple[int, int], rounds: int) -> float:
        both = [Growing(apart, labels[k], shape, seed + 1 + number) for number in range(2)]
        list(pool.map(lambda one: one.rounds(0, rounds), both))
        told = [one.left_out[rounds - 1] for one in both]
        *each, two = (float((heavy * (labels[k] - guess) ** 2)[held].sum()) for guess in (*told, sum(told) / 2))
        alone = sum(each) / 2
        return alone - 2 * (1 - 1 / count) * (alone - two)

    parent = min(range(len(labels)), key=lambda k: error(k, SHAPES[0], 1))
    wrong = {shape: error(parent, shape, LOOKED) for shape in (*SHAPES, DEEP)}
    shape = min(SHAPES, key=lambda shape: wrong[shape])
    shape = DEEP if wrong[DEEP] < (1 - LEAD) * wrong[shape] else shape
    return parent, Growing(rows, labels[parent], shape, seed)


class Rows(NamedTuple):
    """What trees are fitted to, but for the labels."""

    x: NDArray[np.float32]
    known: NDArray[np.bool_]
    weight: NDArray[np.float64]
    fold: NDArray[Any]


class Growing:
    """The trees of every fold so far, and what they say of all rows."""

    def __init__(self, rows: Rows, label: NDArray[np.float64], shape: tuple[int, int], seed: int) -> None:
        self.rows, self.label, self.shape = rows, label, shape
        folds = range(int(rows.fold.max()) + 1)
        self.random = [np.random.default_rng([seed, number]) for number in folds]
        self.grown: list[list[Grown]] = [[] for _ in folds]
        self.said = [np.zeros_like(label) for _ in folds]
        #: Of each round: what a row is told by the trees of its own fold, which have not seen it.
        self.left_out = [np.zeros_like(label) for _ in range(ROUNDS)]

    def error(self, weight: NDArray[np.float64], rounds: int) -> float:
        """The squared error after ``rounds`` on left-out rows, by ``weight`` (n, targets)."""
        return float((weight * (self.label - self.left_out[rounds - 1]) ** 2).sum())

    def go_on(self, pool: ThreadPoolExecutor, rounds: int) -> None:
        """Until all folds have had so many rounds; no fold depends on another, nor on which is first."""
        list(pool.map(lambda number: self.rounds(number, rounds), range(len(self.grown))))

    def rounds(self, number: int, rounds: int) -> None:
        """Until one fold has had so many."""
        held = self.rows.fold == number
        for place in range(len(self.grown[number]) // pace(len(self.rows.x))[1], rounds):
            self._round(number)
            self.left_out[place][held] = self.said[number][held]

    def _round(self, number: int) -> None:
        """A label that is not known is taken to be what the trees say: there is nothing to mend there."""
        add, grow = _loops()
        x, known, weight, fold = self.rows
        (rate, trees), (leaf, depth) = pace(len(x)), self.shape
        seen, said, random = np.flatnonzero(fold != number), self.said[number], self.random[number]
        size = min(max(len(seen) // 2, 1), DRAWN)
        share = min(CELLS / (size * x.shape[1]), 1.0)
        for _ in range(trees):
            some = seen[random.permutation(len(seen))[:size]]
            left = np.where(known[some], self.label[some] - said[some], 0.0)
            tree = grow(x, some, left, weight[some], random, leaf=leaf, depth=depth, share=share)
            add(said, rate, x, *tree)
            self.grown[number].append(tree)


def _loops() -> tuple[Callable[..., None], Callable[..., Grown]]:
    """Compiled when they are first needed."""
    try:
        from excora.models.parts.growing import add, grow
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    return add, grow
