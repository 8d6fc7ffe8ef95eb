"""gamma of one bag from its mean, and v = mu + gamma (a - mu), with their gradients: what the loops call for each bag.

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
def dot(x, y):
    """x . y."""
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
        unit = dot(mean, first[k]) + first_bias[k]
        hidden[k] = math.tanh(unit) if free else max(unit, ZERO)
        raw += last[k] * hidden[k]
    return _bounded(raw, free, cap)


@compile_loop
def add(x, factor, y):
    """x += factor y."""
    for j in range(len(x)):
        x[j] += factor * y[j]


@compile_loop
def add_rows(x, factors, y):
    """x += sum_k factors_k y_k, four rows at a time: x is read once for all four."""
    start = len(y) // 4 * 4
    for k in range(0, start, 4):
        y0, y1, y2, y3 = y[k], y[k + 1], y[k + 2], y[k + 3]
        c0, c1, c2, c3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for j in range(len(x)):
            x[j] += (c0 * y0[j] + c1 * y1[j]) + (c2 * y2[j] + c3 * y3[j])
    for k in range(start, len(y)):
        add(x, factors[k], y[k])


@compile_loop
def gain_backward(d_gamma, mean, hidden, slope, first, last, free, d_hidden, d_mean, d_first, d_first_bias, d_last):
    """Adds what d_gamma moves, through :func:`gain`, to the gradients of mean and weights; returns the last bias's.

    ``d_hidden`` is scratch.
    """
    d_raw = d_gamma * slope
    for k in range(len(hidden)):
        unit = hidden[k]
        d_last[k] += d_raw * unit
        d_unit = d_raw * last[k] * (ONE - unit * unit if free else (ONE if unit > ZERO else ZERO))
        d_first_bias[k] += d_unit
        add(d_first[k], d_unit, mean)
        d_hidden[k] = d_unit
    add_rows(d_mean, d_hidden, first)
    return d_raw


@compile_loop
def lerp_backward(g_value, mean, attended, gamma, d_mean, d_attended):
    """Adds what g_value moves, through :func:`lerp`, to the gradients of both ends; that of gamma."""
    d_gamma = ZERO
    for j in range(len(mean)):
        d_gamma += g_value[j] * (attended[j] - mean[j])
    add(d_attended, gamma, g_value)
    add(d_mean, ONE - gamma, g_value)
    return d_gamma
