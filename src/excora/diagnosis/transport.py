"""Optimal transport: how straight is the way of the data through a layer, or through training?

Points X_1 -> X_2 -> ... -> X_T (n, d), the same points at each time. Costs are squared, lengths are not:

    distance = sqrt(sum_i |x_T,i - x_1,i|^2)      least = the same of the pairing p that makes it least, x_T,p(i)
    straight = sum_i |x_T,i - x_1,i|              path  = sum_t sum_i |x_(t+1),i - x_t,i|

    Monge gap = distance - least >= 0,   optimality = least / distance,   efficiency = straight / path

``matching`` is the share of points that the best pairing leaves where they went: by Brenier's theorem all of them, if
the map is the gradient of a convex function. After Quadrio and Candelieri (arXiv 2512.09530). DIFF: their code divides
the distance by the path, a root of squares by a sum of lengths, so that a straight move of n points has an efficiency
of 1/sqrt(n); here both are sums of lengths, and it has 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from excora.errors import InputError

Array = NDArray[np.float64]
#: An assignment of n points takes n^2 memory and up to n^3 time.
MOST_POINTS = 3000


class Transport(NamedTuple):
    """How points moved, beside how little they had to."""

    distance: float
    least: float
    straight: float
    path: float
    matching: float  #: 0 to 1

    @property
    def monge_gap(self) -> float:
        """What the move costs beyond the cheapest one between the same clouds."""
        return self.distance - self.least

    @property
    def optimality(self) -> float:
        """1: no cheaper pairing exists. 1 for points that did not move."""
        return self.least / self.distance if self.distance > 0 else 1.0

    @property
    def efficiency(self) -> float:
        """1: each point went straight. 1 for points that did not move."""
        return self.straight / self.path if self.path > 0 else 1.0


def transport(stages: Sequence[ArrayLike], *, label: ArrayLike | None = None) -> Transport:
    """The way from the first to the last of ``stages``, each (n, d): a layer's input and output, or epochs of it.

    With ``label`` (n,), points may only be paired within a label, as a classifier's would be.

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> moved = transport([x, x @ np.diag([2.0, 0.5]) + 1.0])
    >>> round(moved.optimality, 6), moved.matching, round(moved.efficiency, 6)
    (1.0, 1.0, 1.0)
    """
    points = _checked(stages)
    first, last = points[0], points[-1]
    path = sum(float(np.linalg.norm(b - a, axis=1).sum()) for a, b in pairwise(points))
    groups = [np.arange(len(first))] if label is None else _groups(np.asarray(label), len(first))
    least, stay = 0.0, 0
    for rows in groups:
        cost = ((first[rows, None] - last[None, rows]) ** 2).sum(2)
        pair = linear_sum_assignment(cost)
        least += float(cost[pair].sum())
        stay += int((pair[1] == np.arange(len(rows))).sum())
    lengths = np.linalg.norm(last - first, axis=1)
    distance = float(np.sqrt((lengths**2).sum()))
    return Transport(distance, min(float(np.sqrt(least)), distance), float(lengths.sum()), path, stay / len(first))


def gaussian_wasserstein(mean: ArrayLike, covariance: ArrayLike, other_mean: ArrayLike, other: ArrayLike) -> float:
    """2-Wasserstein distance of two normal laws: sqrt(|m - m'|^2 + tr(A + B - 2 (A^(1/2) B A^(1/2))^(1/2))).

    >>> round(gaussian_wasserstein([0.0], [[1.0]], [3.0], [[4.0]]) ** 2, 9)
    10.0
    """
    a, b = np.asarray(covariance, float), np.asarray(other, float)
    shift = np.asarray(mean, float) - np.asarray(other_mean, float)
    root = _root(a)
    bures = np.trace(a + b - 2.0 * _root(root @ b @ root))
    return float(np.sqrt(shift @ shift + max(bures, 0.0)))


def _root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _checked(stages: Sequence[ArrayLike]) -> list[Array]:
    points = [np.asarray(stage, float) for stage in stages]
    shapes = {one.shape for one in points}
    if len(points) < 2 or len(shapes) != 1 or points[0].ndim != 2 or not len(points[0]):
        raise InputError(f"at least two stages of the same points, (n, d) each, are needed, got {sorted(shapes)}")
    if not all(np.isfinite(one).all() for one in points):
        raise InputError("a stage holds NaN or infinite coordinates: leave those points out of all stages")
    if len(points[0]) > MOST_POINTS:
        raise InputError(
            f"{len(points[0])} points are more than the {MOST_POINTS} of an exact pairing: pass a sample of them"
        )
    return points


def _groups(label: NDArray[np.generic], n: int) -> list[NDArray[np.intp]]:
    if label.shape != (n,):
        raise InputError(f"label must be one a point, shape ({n},), got {label.shape}")
    return [np.flatnonzero(label == one) for one in np.unique(label)]
