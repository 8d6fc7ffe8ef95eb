"""Ordinary kriging by its textbook system, one query at a time, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def kriging(between: Floats, toward: Floats, nugget: Floats) -> tuple[Floats, float]:
    """Weights (k,) and variance from [[A, 1], [1', 0]] [w, mu] = [k, 1], A = K + diag(nugget).

    The variance of what is left of a label without its noise: 1 - w'k - mu.
    """
    k = len(toward)
    system = np.ones((k + 1, k + 1))
    system[:k, :k] = between + np.diag(np.broadcast_to(nugget, k))
    system[k, k] = 0.0
    solved = np.linalg.solve(system, np.append(toward, 1.0))
    return solved[:k], float(1.0 - solved[:k] @ toward - solved[k])


def gls_mean(between: Floats, nugget: Floats, label: Floats) -> float:
    """m = 1'A^-1 r / 1'A^-1 1."""
    ones = np.ones(len(label))
    inverse = np.linalg.inv(between + np.diag(np.broadcast_to(nugget, len(label))))
    return float(ones @ inverse @ label / (ones @ inverse @ ones))
