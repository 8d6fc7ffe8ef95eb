"""Correlation statistics the slow, obvious way: numpy float64, one target at a time, weights as they are defined."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def _one(x: ArrayLike, y: ArrayLike, w: ArrayLike | None) -> tuple[Array, Array, Array]:
    """Values of weight above zero, and weights that sum to 1."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.ones_like(x) if w is None else np.asarray(w, dtype=np.float64)
    kept = w > 0
    return x[kept], y[kept], w[kept] / w[kept].sum()


def pearson(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> float:
    x, y, w = _one(x, y, w)
    a, b = x - (w * x).sum(), y - (w * y).sum()
    # Units of one: the sums of squares of 1e-18 or 1e18 stay far from the ends of float64, and exact enough.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float((w * a * b).sum() / np.sqrt((w * a * a).sum() * (w * b * b).sum()))


def concordance(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> float:
    x, y, w = _one(x, y, w)
    mx, my = (w * x).sum(), (w * y).sum()
    covariance = (w * (x - mx) * (y - my)).sum()
    squares = (w * (x - mx) ** 2).sum() + (w * (y - my) ** 2).sum() + (mx - my) ** 2
    return float(2.0 * covariance / squares)


def deviation(x: ArrayLike, w: ArrayLike | None = None) -> float:
    x, _, w = _one(x, x, w)
    return float(np.sqrt((w * (x - (w * x).sum()) ** 2).sum()))


def mse(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> float:
    x, y, w = _one(x, y, w)
    return float((w * (x - y) ** 2).sum())


def pearson_gradient(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Array:
    """d rho/dx_i = (w_i/W) (b_i/sigma_y - rho a_i/sigma_x) / sigma_x, for all weights above zero (Thm 2.1)."""
    rho, sigma_x, sigma_y = pearson(x, y, w), deviation(x, w), deviation(y, w)
    x, y, w = _one(x, y, w)
    a, b = x - (w * x).sum(), y - (w * y).sum()
    return w * (b / sigma_y - rho * a / sigma_x) / sigma_x


def concordance_gradient(x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Array:
    """d ccc/dx_i = (w_i/W) 2 (b_i - ccc (x_i - mean y)) / (sigma_x^2 + sigma_y^2 + offset^2)."""
    ccc = concordance(x, y, w)
    variances = deviation(x, w) ** 2 + deviation(y, w) ** 2
    x, y, w = _one(x, y, w)
    mx, my = (w * x).sum(), (w * y).sum()
    return w * 2.0 * ((y - my) - ccc * (x - my)) / (variances + (mx - my) ** 2)
