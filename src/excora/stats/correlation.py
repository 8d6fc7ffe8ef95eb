"""The Pearson correlation in numpy: of columns, of parts of them, and of resamples by their sums.

An unknown label is NaN in the target: the row does not count for that target. Where a correlation is undefined it is
NaN: fewer than two rows, or a standard deviation of at most 4 machine epsilons of the mean, which is rounding. (The
same rule as :func:`excora.pearson`, which is 0 there, with a gradient.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
TOLERANCE = 4.0  #: in units of machine epsilon, as in excora.moments
#: Of sums of standardised values: a smaller variance of a part of them is rounding.
SMALLEST = 1e-14


def pearson(prediction: Array, target: Array, weight: Array | None = None) -> Array:
    """rho = sum_i w_i a_i b_i / sqrt(sum_i w_i a_i^2 sum_i w_i b_i^2) of each target: (targets,).

    a = prediction - mean and b = target - mean over the rows whose label is known.

    ``prediction`` and ``target`` (n,) or (n, targets), ``weight`` (n,), not negative; one column gives shape (1,).

    >>> pearson(np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]]), np.array([[2.0, 1.0], [4.0, 2.0], [np.nan, 4.0]]))
    array([ 1., nan])
    """
    x, y = (np.atleast_2d(np.asarray(part, np.float64).T) for part in (prediction, target))  # (targets, n)
    return np.array([_one(*pair, weight) for pair in zip(x, y, strict=True)])


def _one(x: Array, y: Array, weight: Array | None) -> float:
    known = ~np.isnan(y) if weight is None else ~np.isnan(y) & (weight > 0)
    if not known.all():
        x, y, weight = x[known], y[known], None if weight is None else weight[known]
    if not len(x):
        return float("nan")
    a, b = _centred(x, weight), _centred(y, weight)
    w = np.ones(len(a)) if weight is None else weight
    squares = float(w @ (a * a)) * float(w @ (b * b))  # 0 where one of both is constant
    return float("nan") if squares == 0 else float(np.clip(w @ (a * b) / np.sqrt(squares), -1.0, 1.0))


def _centred(x: Array, weight: Array | None) -> Array:
    """x - mean of a column (n,), in a unit of its size; 0 where its deviation is rounding, NaN if not all is finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.average(x, weights=weight)
        centred = x - mean
        centred -= np.average(centred, weights=weight)  # what rounding left of the mean
        # A power of two, which is exact: squares of what is very large or very small leave the range.
        power = np.frexp(np.abs(centred).max(initial=0.0))[1]
        centred = np.ldexp(centred, -power)
        noise = np.ldexp(TOLERANCE * np.finfo(np.float64).eps * abs(mean), -power)
        constant = np.average(centred**2, weights=weight) <= noise**2
    return np.zeros_like(centred) if constant else centred


def standardised(x: Array) -> Array:
    """(x - mean) / deviation of a column (n,); 0 where the deviation is rounding, NaN if not all are finite.

    >>> standardised(np.array([1.0, 3.0])), standardised(np.array([0.1, 0.1, 0.1]))
    (array([-1.,  1.]), array([0., 0., 0.]))
    """
    centred = _centred(x, None)
    return centred / np.sqrt(np.mean(centred**2)) if centred.any() else centred


def unit_moments(x: Array, y: Array, unit: Codes, units: int) -> Array:
    """Sums of (1, x, y, xx, yy, xy) of each unit, x and y standardised over all rows: (units, 6).

    Sums of several units, or of one counted twice, are those of their rows: resampling needs no rows.
    """
    x, y = standardised(x), standardised(y)
    columns = (np.ones_like(x), x, y, x * x, y * y, x * y)
    return np.stack([np.bincount(unit, column, units) for column in columns], 1)


def correlations(moments: Array) -> Array:
    """Correlation (cov / n) / sqrt(var_x var_y) from sums (..., 6) of :func:`unit_moments`; NaN where one is constant.

    >>> correlations(unit_moments(np.array([1.0, 2.0, 9.0]), np.array([2.0, 4.0, 0.0]), np.array([0, 0, 1]), 2))
    array([ 1., nan])
    """
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = x / n, y / n
        variance_x, variance_y = xx / n - x * x, yy / n - y * y
        rho = (xy / n - x * y) / np.sqrt(variance_x * variance_y)
    # Both are of unit scale here, so an absolute limit tells spread from rounding.
    return np.where((variance_x > SMALLEST) & (variance_y > SMALLEST), np.clip(rho, -1.0, 1.0), np.nan)


def within_groups(x: Array, y: Array, group: Codes, groups: int) -> Array:
    """The correlation of ``x`` and ``y`` (n,) within each group over its known labels: (groups,), NaN where undefined.

    >>> within_groups(np.array([1.0, 2.0, 5.0, 5.0]), np.array([3.0, 1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]), 2)
    array([-1., nan])
    """
    known = ~np.isnan(y)
    x, y, group = x[known], y[known], group[known]
    sizes = np.maximum(np.bincount(group, minlength=groups), 1)
    # Centred by group first: a group far from the others would lose its digits in the common scale.
    x, y = (part - (np.bincount(group, part, groups) / sizes)[group] for part in (x, y))
    return correlations(unit_moments(x, y, group, groups))


def mean_over_targets(values: Array) -> Array:
    """The mean over the first axis of what is not NaN; NaN where all are. What is reported of several targets.

    >>> mean_over_targets(np.array([[0.5, 0.1], [np.nan, 0.3], [0.7, 0.2]]))
    array([0.6, 0.2])
    """
    known = ~np.isnan(values)
    return np.asarray(np.where(known, values, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan))


def selection_mean(rho: Array) -> float:
    """The mean over all targets, an undefined correlation as 0, else a collapsed model would win. What models are
    picked and compared by.

    >>> selection_mean(np.array([0.5, np.nan, 0.7]))
    0.39999999999999997
    """
    return float(np.nan_to_num(rho).mean())
