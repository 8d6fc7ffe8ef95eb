"""Numbers on one scale: mean and deviation, ranks as normal scores, and what lies far outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Standardised values stop here: no training set is large enough to hold one, and float32 does not overflow.
CLIP = 1e6

#: Quantiles that are kept of a number, for training parts of 30,000 rows and more; a thirtieth of the rows below.
MOST_QUANTILES = 1000


def mean_and_std(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of (n,) finite numbers; 0 exactly if they are all the same.

    In units of the largest, so that the squares of tiny numbers do not vanish.
    """
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low, 0.0
    unit = max(abs(low), abs(high))
    scaled = values / unit
    mean = scaled.mean()
    return float(mean * unit), float(np.sqrt(np.square(scaled - mean).mean()) * unit)


def standardised(values: Floats, mean: Any, std: Any) -> Floats:
    """(values - mean) / std, at most :data:`CLIP` from 0; NaN stays NaN."""
    with np.errstate(over="ignore"):
        found: Floats = np.asarray(values - np.asarray(mean, float))
        found /= np.asarray(std, float)
        return np.clip(found, -CLIP, CLIP, out=found)


def quantiles_of(values: Floats) -> Floats:
    """Of (n,) finite numbers, at equal steps from the lowest to the highest: what :func:`normal_scores` ranks by."""
    steps = np.linspace(0.0, 1.0, min(max(len(values) // 30, 10), MOST_QUANTILES))
    found: Floats = np.maximum.accumulate(np.quantile(values, steps))
    return found


def normal_scores(values: Floats, quantiles: Floats) -> Floats:
    """Phi^-1(rank), where the rank of a training quantile is its place in [0, 1] and others lie on lines between.

    Equal quantiles share the middle of their ranks. Values at the ends or beyond get +-5.2; NaN stays NaN.

    >>> normal_scores(np.array([1.0, 2.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0])).round(2).tolist()
    [-5.2, 0.0, 0.67, 5.2]
    """
    ranks = np.linspace(0.0, 1.0, len(quantiles))
    below = np.interp(values, quantiles, ranks)
    above = 1.0 - np.interp(-values, -quantiles[::-1], ranks)
    middle = np.clip(0.5 * (below + above), 1e-7, 1 - 1e-7)
    return np.asarray(torch.special.ndtri(torch.from_numpy(middle)).numpy())


def far_outside(values: Floats, low: Any, high: Any) -> NDArray[np.bool_]:
    """Whether values (n, features) lie beyond [low, high] by more than half of its width; NaN does not."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    reach = (high - low) / 2
    return (values < low - reach) | (values > high + reach)
