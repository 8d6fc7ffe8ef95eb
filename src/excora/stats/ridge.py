"""Ridge regression in closed form: every penalty from one decomposition, and the exact prediction of left-out samples.

    min over w, c of  sum_i v_i |y_i - c - x_i w|^2 + alpha |w|^2,   v the sample weights, scaled to a mean of 1

With m the weighted mean of x, A the rows sqrt(v_i) (x_i - m) and

    h_i = v_i (1/n + (x_i - m)' (A'A + alpha I)^-1 (x_i - m)),

a fit without sample i misses its label by e_i / (1 - h_i), where e_i is what the fit with it misses it by.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError
from excora.stats.correlation import Array

#: Parts that groups are dealt to.
FOLDS = 10
#: What the penalty of standardised columns is looked for in: 22 values from 1e-2 to 1e5.
PENALTIES = tuple(np.logspace(-2, 5, 22).tolist())


class Linear(NamedTuple):
    """x coefficient + intercept.

    >>> Linear(np.array([[2.0]]), np.array([1.0])).predict(np.array([[3.0]])).tolist()
    [[7.0]]
    """

    coefficient: Array  #: (features, targets)
    intercept: Array  #: (targets,)

    def predict(self, x: Array) -> Array:
        """Predictions (n, targets) of features (n, features)."""
        return x @ self.coefficient + self.intercept


class RidgePath:
    """The fits with every penalty to features ``x`` (n, p), known labels ``y`` (n, t) and weights (n,) or None.

    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> RidgePath(x, y).at(1e-12).predict(np.array([[4.0]])).round(6).tolist()
    [[9.0]]
    """

    def __init__(self, x: Array, y: Array, weight: Array | None = None, *, spend: bool = False) -> None:
        """``spend``: ``x`` is not needed afterwards, and may be overwritten."""
        n = len(x)
        self.y = y
        self.v = np.ones(n) if weight is None or not weight.any() else weight / weight.mean()
        self.mean, self.level = self.v @ x / n, self.v @ y / n
        root = np.sqrt(self.v)[:, None]
        self.centred = np.subtract(x, self.mean, out=x if spend else None)
        equal = bool((self.v == 1.0).all())  # then nothing is multiplied: a copy of x would be a lot
        a, b = self.centred if equal else self.centred * root, (y - self.level) * root
        wide = a.shape[1] > n
        values, vectors = np.linalg.eigh(a @ a.T if wide else a.T @ a)
        self.values = np.maximum(values, 0.0)
        # (A'A + alpha)^-1 A'b = back diag(1 / (values + alpha)) rotated
        self.back = a.T @ vectors if wide else vectors
        self.rotated = vectors.T @ (b if wide else a.T @ b)

    def at(self, alpha: float, targets: NDArray[np.bool_] | None = None) -> Linear:
        """The fit with this penalty; of these ``targets`` (t,), or of all."""
        some = slice(None) if targets is None else targets
        coefficient = self.back @ (self.rotated[:, some] / (self.values + alpha)[:, None])
        return Linear(coefficient, self.level[some] - self.mean @ coefficient)

    def turned(self, x: Array) -> Array:
        """Features (m, p) in coordinates (m, r) in which every penalty is a division: see :meth:`predicted`."""
        return (x - self.mean) @ self.back

    def predicted(self, turned: Array, alpha: float) -> Array:
        """Predictions (m, t) of the fit with this penalty, without its coefficients: they cost more than the rest."""
        return turned @ (self.rotated / (self.values + alpha)[:, None]) + self.level

    def forget(self) -> None:
        """The samples: it only predicts others from here on. A view of none of them would keep them all."""
        self.centred, self.y = np.empty((0, len(self.mean))), np.empty((0, len(self.level)))

    @cached_property
    def _own(self) -> Array:
        """The samples themselves, turned."""
        return self.centred @ self.back

    @cached_property
    def _seen(self) -> Array:
        """(n, r): the squared coordinates of x - m in the eigenvectors of A'A."""
        # The columns of `back` for a wide matrix have a squared length of their eigenvalue.
        length = (self.back**2).sum(0)
        return self._own**2 / np.where(length > 1e-14 * length.max(initial=0.0), length, np.inf)

    def leverage(self, alpha: float) -> Array:
        """h_i (n,): how much a label moves its own prediction."""
        return self.v * (1.0 / len(self.v) + self._seen @ (1.0 / (self.values + alpha)))

    def left_out(self, alpha: float) -> Array:
        """For each sample the prediction (n, t) of the fit with this penalty to all the others."""
        missed = self.y - self.predicted(self._own, alpha)
        return self.y - missed / np.maximum(1.0 - self.leverage(alpha), 1e-12)[:, None]


class LeftOutGroups:
    """As :meth:`RidgePath.left_out` where samples of a group are not independent: whole groups, in at most 10 folds."""

    def __init__(self, x: Array, y: Array, weight: Array | None, group: NDArray[Any]) -> None:
        names, codes = np.unique(group, return_inverse=True)
        fold = codes % min(len(names), FOLDS)
        self.shape, self.folds = y.shape, []
        for number in range(int(fold.max()) + 1):
            seen = fold != number
            path = RidgePath(x[seen], y[seen], None if weight is None else weight[seen], spend=True)
            path.forget()
            self.folds.append((~seen, path, path.turned(x[~seen])))

    def left_out(self, alpha: float) -> Array:
        """For each sample the prediction (n, t) of the fit to the other folds."""
        found = np.empty(self.shape)
        for held, path, turned in self.folds:
            found[held] = path.predicted(turned, alpha)
        return found


class LeftOutRidge(NamedTuple):
    """A ridge whose penalties are those of the least squared error on left-out samples."""

    line: Linear
    left_out: Array  #: (n, targets): the prediction of each sample by the fit to all others
    penalty: Array  #: (targets,)


def left_out_ridge(
    x: Array,
    y: Array,
    weight: Array | None = None,
    penalties: Sequence[float] = PENALTIES,
    group: NDArray[Any] | None = None,
    *,
    shared: bool = False,
) -> LeftOutRidge:
    """One penalty a target, by exact leave-one-out; a label that is NaN is not known and does not count.

    ``group`` (n,): samples of one group are left out together, see :class:`LeftOutGroups`. ``shared``: one penalty for
    all targets that are known for the same samples, of the least sum of squared errors: what few samples say of the
    best penalty of one of many noisy targets is mostly noise.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 2))
    >>> fit = left_out_ridge(x, x @ np.array([[1.0], [-2.0]]))
    >>> fit.line.coefficient.round(2).ravel().tolist(), fit.penalty.tolist()
    ([1.0, -2.0], [0.01])

    A target with fewer than 3 known labels gets their mean (0 without any) and an infinite penalty.
    """
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(
            f"features (n, p) and labels (n, targets) of the same n are needed, got {x.shape} and {y.shape}"
        )
    coefficient, intercept = np.zeros((x.shape[1], y.shape[1])), np.zeros(y.shape[1])
    left_out, chosen = np.empty_like(y, dtype=float), np.full(y.shape[1], np.inf)
    for together in known_together(y):
        targets = np.array(together)
        known = ~np.isnan(y[:, targets[0]])
        if known.sum() < 3:
            intercept[targets] = y[known][:, targets].mean(0) if known.any() else 0.0
            left_out[:, targets] = intercept[targets]
            continue
        held = None if weight is None else weight[known]
        given = x if known.all() else x[known], y[known][:, targets], held
        apart = group is not None and len(set(group[known])) > 1
        judge = LeftOutGroups(*given, group[known]) if apart and group is not None else None
        path = RidgePath(*given)
        if judge is not None:
            path.forget()
        line, own, penalty = _best(path, judge or path, given[1], held, penalties, shared=shared)
        coefficient[:, targets], intercept[targets], chosen[targets] = line.coefficient, line.intercept, penalty
        left_out[:, targets] = line.predict(x)
        left_out[np.ix_(known, targets)] = own
    return LeftOutRidge(Linear(coefficient, intercept), left_out, chosen)


def standardised_ridge(
    x: Array, y: Array, weight: Array | None = None, group: NDArray[Any] | None = None
) -> LeftOutRidge:
    """:func:`left_out_ridge` of columns with mean 0 and deviation 1; its line reads ``x`` as it is.

    >>> x = np.array([[0.0, 5.0], [100.0, 5.0], [200.0, 5.0], [300.0, 5.0]])
    >>> standardised_ridge(x, x[:, :1] / 100).line.coefficient.round(4).ravel().tolist()
    [0.01, 0.0]
    """
    mean, std = x.mean(0), x.std(0)
    flat = ~(std > 1e-12 * np.abs(x).max(0, initial=0.0))
    std[flat] = 1.0
    found = left_out_ridge(np.where(flat, 0.0, (x - mean) / std), y, weight, group=group)
    coefficient = found.line.coefficient / std[:, None]
    return found._replace(line=Linear(coefficient, found.line.intercept - mean @ coefficient))


def _best(
    path: RidgePath,
    judge: RidgePath | LeftOutGroups,
    y: Array,
    weight: Array | None,
    penalties: Sequence[float],
    *,
    shared: bool,
) -> LeftOutRidge:
    """By target the penalty of the least weighted squared error on left-out samples; the larger one of equals.

    ``shared``: one for all, of the least sum.
    """
    v = np.ones(len(y)) if weight is None or not weight.any() else weight
    error = np.full(y.shape[1], np.inf)
    coefficient = np.zeros((len(path.mean), y.shape[1]))
    intercept, own, penalty = np.zeros_like(error), np.empty_like(y, dtype=float), np.zeros_like(error)
    for alpha in sorted(penalties, reverse=True):
        out = judge.left_out(alpha)
        now = v @ (y - out) ** 2
        now = np.full_like(now, now.sum()) if shared else now
        better = now < error
        own[:, better], penalty[better], error[better] = out[:, better], alpha, now[better]
    for alpha in np.unique(penalty[penalty > 0]):  # 0: nothing could be judged
        chosen = penalty == alpha
        coefficient[:, chosen], intercept[chosen] = path.at(alpha, chosen)
    return LeftOutRidge(Linear(coefficient, intercept), own, penalty)


def known_together(y: Array) -> list[list[int]]:
    """The targets in groups that are known for the same samples, in order.

    >>> known_together(np.array([[1.0, np.nan, 2.0], [0.0, 1.0, 1.0]]))
    [[0, 2], [1]]
    """
    found: dict[bytes, list[int]] = {}
    for target, unknown in enumerate(np.isnan(y).T):
        found.setdefault(unknown.tobytes(), []).append(target)
    return list(found.values())
