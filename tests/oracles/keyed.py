"""Local-linear and kriging weights of one bag in numpy float64, straight from their definitions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def local_linear(keys: Array, ridge: float, bound: float, rank: int) -> tuple[Array, Array]:
    """alpha and the weights of one bag from key_i - query, (n, channels): element by element."""
    logits = np.array([-float(key @ key) for key in keys])
    alpha = np.exp(logits - logits.max())
    alpha /= alpha.sum()
    near = keys[:, :rank]
    u = sum(a * x for a, x in zip(alpha, near, strict=True))
    s = sum(a * np.outer(x - u, x - u) for a, x in zip(alpha, near, strict=True))
    width = near.shape[1]
    x = -np.linalg.solve(s + softplus(ridge) * (np.trace(s) / width + 1e-3) * np.eye(width), u)
    g = np.array([float((row - u) @ x) for row in near])
    deviation, kappa = math.sqrt(float((alpha * g**2).sum())), softplus(bound)
    return alpha, alpha * (1 + g / math.sqrt(1 + (deviation / kappa) ** 2))


def distances(keys: Array) -> Array:
    return np.array([[math.dist(a, b) for b in keys] for a in keys])


def ordinary_kriging(keys: Array, length: float, nugget: float) -> tuple[Array, float]:
    """The weights of the textbook's system with a Lagrange multiplier, and the variance of what they miss::

    [C 1; 1' 0] [w; mu] = [k; 1],   variance = 1 - 2 w.k + w'C w
    """
    n = len(keys)
    c = np.exp(-distances(keys) / length) + nugget * np.eye(n)
    k = np.array([math.exp(-math.hypot(*key) / length) for key in keys])
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = c, 0.0
    w = np.linalg.solve(system, np.append(k, 1.0))[:n]
    return w, float(1 - 2 * w @ k + w @ c @ w)
