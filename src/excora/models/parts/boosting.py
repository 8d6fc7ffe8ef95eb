"""Boosted trees on what a line leaves of the labels: each fold's rows are told what trees without them say.

    f_0 = 0,   f_t = f_(t-1) + rate tree_t,   tree_t fitted to r - f_(t-1) on a draw of rows

Thresholds are drawn, not sought (Geurts, Ernst and Wehenkel, 2006), which is quick and varies the trees. No trees are
fitted to all rows: a new row is told the mean of what the trees of all folds say.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import MissingExtraError
from excora.models.parts.trees import DEPTH, Trees, joined

#: Rows from which trees are tried.
FEWEST = 100
#: Of a step, and what the least number of rows of a leaf is chosen from.
RATE, LEAVES = 0.1, (5, 30)
#: Trees of a round, rounds at most, and rounds without a gain on left-out rows after which there are no more.
ROUND, ROUNDS, PATIENCE = 25, 12, 2
#: Rows from which steps are half as long, and rounds have twice the trees: with many rows that is what still gains.
LARGE = 8000
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
    *, seed: int, seconds: float,
) -> Boosted | None:  # fmt: skip
    """Trees on the channels of ``x`` (n, channels) from ``offset`` on, for the line whose residual they shrink most.

    ``residuals`` (n, targets) of each line, ``known`` where they are known, ``weight`` (n,), ``fold`` (n,). The first
    round is grown on each line with small leaves and with large ones; what has the least squared error on left-out rows
    goes on, until :data:`PATIENCE` rounds bring no gain, or ``seconds`` are over. None where rows are few, there is one
    fold, or no round brings a gain.
    """
    columns = np.ascontiguousarray(x[:, offset:].numpy(), np.float32)
    if len(x) < FEWEST or not int(fold.max()) or not columns.shape[1]:
        return None
    begun, heavy = time.monotonic(), (known * weight.unsqueeze(1)).double().numpy()
    rows = Rows(columns, known.numpy(), weight.double().numpy(), fold.numpy())
    with ThreadPoolExecutor(max(torch.get_num_threads(), 1)) as pool:
        labels = [torch.where(known, residual, 0.0).double().numpy() for residual in residuals]
        tried = [Growing(rows, label, leaf, seed) for label in labels for leaf in LEAVES]
        for one in tried:
            one.go_on(pool)
        best_of = min(range(len(tried)), key=lambda k: tried[k].error(heavy))
        found, parent = tried[best_of], best_of // len(LEAVES)
        best, kept, rounds = float((heavy * found.label**2).sum()), np.zeros_like(found.label), 0
        for number in range(1, ROUNDS + 1):
            if (error := found.error(heavy)) < best:
                best, kept, rounds = error, found.left_out.copy(), number
            if number - rounds >= PATIENCE or time.monotonic() - begun > seconds:
                break
            if number < ROUNDS:
                found.go_on(pool)
    if not rounds:
        return None
    rate, size = pace(len(x))
    trees = joined([tree for grown in found.grown for tree in grown[: rounds * size]], offset)
    trees = trees._replace(value=trees.value * (rate / len(found.grown)))
    return Boosted(parent, trees, residuals[parent] - torch.from_numpy(kept).float())


class Rows(NamedTuple):
    """What trees are fitted to, but for the labels."""

    x: NDArray[np.float32]
    known: NDArray[np.bool_]
    weight: NDArray[np.float64]
    fold: NDArray[Any]


class Growing:
    """The trees of every fold so far, and what they say of all rows."""

    def __init__(self, rows: Rows, label: NDArray[np.float64], leaf: int, seed: int) -> None:
        self.rows, self.label, self.leaf = rows, label, leaf
        folds = range(int(rows.fold.max()) + 1)
        self.random = [np.random.default_rng([seed, number]) for number in folds]
        self.grown: list[list[Any]] = [[] for _ in folds]
        self.said = [np.zeros_like(label) for _ in folds]
        self.left_out = np.zeros_like(label)

    def error(self, weight: NDArray[np.float64]) -> float:
        """The squared error on left-out rows, by ``weight`` (n, targets)."""
        return float((weight * (self.label - self.left_out) ** 2).sum())

    def go_on(self, pool: ThreadPoolExecutor) -> None:
        """One more round in each fold; folds do not depend on each other, nor on which is first."""
        list(pool.map(self._round, range(len(self.grown))))
        for number, said in enumerate(self.said):
            held = self.rows.fold == number
            self.left_out[held] = said[held]

    def _round(self, number: int) -> None:
        """A label that is not known is taken to be what the trees say: there is nothing to mend there."""
        x, known, weight, fold = self.rows
        rate, trees = pace(len(x))
        seen, said, random = np.flatnonzero(fold != number), self.said[number], self.random[number]
        size = min(max(len(seen) // 2, 1), DRAWN)
        share = min(CELLS / (size * x.shape[1]), 1.0)
        for _ in range(trees):
            drawn = random.permutation(len(seen))[:size]
            some = seen[drawn]
            left = np.where(known[some], self.label[some] - said[some], 0.0)
            tree = _tree(share, self.leaf, int(random.integers(2**31))).fit(x[some], left, weight[some])
            said += rate * tree.predict(x, check_input=False).reshape(said.shape)
            self.grown[number].append(tree)


def _tree(share: float, leaf: int, seed: int) -> Any:
    try:
        from sklearn.tree import ExtraTreeRegressor
    except ImportError:
        raise MissingExtraError("scikit-learn", "app") from None
    return ExtraTreeRegressor(max_depth=DEPTH, min_samples_leaf=leaf, max_features=share, random_state=seed)
