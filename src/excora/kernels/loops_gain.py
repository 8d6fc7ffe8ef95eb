"""gamma of one bag from its mean, and v = mu + gamma (a - mu), compiled: what the loops of pooling call for each bag.

The formulas are those of :class:`excora.extrapolation.Gain` and :func:`excora.extrapolation.extrapolate`.
"""

# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from excora.kernels.calls import compile_loop

#: Where the exponent of the free gain is cut off, as in :func:`excora.extrapolation.free_gain`.
FURTHEST = 30.0

ZERO, ONE = np.float32(0.0), np.float32(1.0)


@compile_loop
def _bounded(raw, free, cap):
    """gamma = free_gain(raw, cap) or paper_gain(raw, cap), and its slope."""
    if free:
        less = (cap - 1.0) * math.expm1(-min(max(raw, -FURTHEST), FURTHEST))
        gamma = 1.0 - less / (less + cap)
        return gamma, gamma * (1.0 - gamma / cap) if abs(raw) <= FURTHEST else 0.0
    gamma = 1.0 + (raw if raw > 20.0 else math.log1p(math.exp(raw)))
    return min(gamma, cap), 1.0 / (1.0 + math.exp(-raw)) if gamma <= cap else 0.0


@compile_loop
def _dot(x, y):
    total = ZERO
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@compile_loop
def lerp(mean, attended, gamma, value):
    """As torch does it: the attended value to the last bit at gamma = 1."""
    if gamma < np.float32(0.5):
        for j in range(len(mean)):
            value[j] = mean[j] + gamma * (attended[j] - mean[j])
    else:
        for j in range(len(mean)):
            value[j] = attended[j] - (attended[j] - mean[j]) * (ONE - gamma)


@compile_loop
def gain(mean, first, first_bias, last, last_bias, free, cap, hidden):
    """gamma = bounded(last . act(first mean + first_bias) + last_bias), and its slope; the units to ``hidden``."""
    raw = np.float64(last_bias[0])
    for k in range(len(hidden)):
        unit = _dot(mean, first[k]) + first_bias[k]
        hidden[k] = math.tanh(unit) if free else max(unit, ZERO)
        raw += last[k] * hidden[k]
    return _bounded(raw, free, cap)
