"""The loops of :mod:`excora.kernels.residual`: gamma from the mean, v = mu + gamma (a - mu), and their gradients.

The formulas are those of :class:`excora.extrapolation.Gain` and :func:`excora.extrapolation.extrapolate`. One thread
does all: for some ten microseconds of work, waking another would take longer.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba

from excora.kernels.calls import Loop, compile_loop, floats, next_job
from excora.kernels.loops_gain import ONE, ZERO, gain, lerp


@compile_loop
def _add(x, factor, y):
    for j in range(len(x)):
        x[j] += factor * y[j]


def _forward(record):
    call = numba.carray(record, 1)[0]
    bags, dim, width = call.bags, call.dim, call.width
    mean, attended = floats(call.mean, (bags, dim)), floats(call.attended, (bags, dim))
    first, first_bias = floats(call.first, (width, dim)), floats(call.first_bias, width)
    last, last_bias = floats(call.last, width), floats(call.last_bias, 1)
    hidden, gamma, slope = floats(call.hidden, (bags, width)), floats(call.gamma, bags), floats(call.slope, bags)
    value = floats(call.value, (bags, dim))
    b = next_job(record)
    while b < bags:
        gamma[b], slope[b] = gain(mean[b], first, first_bias, last, last_bias, call.free, call.cap, hidden[b])
        lerp(mean[b], attended[b], gamma[b], value[b])
        b = next_job(record)


def _backward(record):
    call = numba.carray(record, 1)[0]
    bags, dim, width = call.bags, call.dim, call.width
    mean, attended = floats(call.mean, (bags, dim)), floats(call.attended, (bags, dim))
    first, last = floats(call.first, (width, dim)), floats(call.last, width)
    hidden, gamma, slope = floats(call.hidden, (bags, width)), floats(call.gamma, bags), floats(call.slope, bags)
    g_value, g_gamma = floats(call.g_value, (bags, dim)), floats(call.g_gamma, bags)
    d_mean, d_attended = floats(call.d_mean, (bags, dim)), floats(call.d_attended, (bags, dim))
    d_first, d_first_bias = floats(call.d_first, (width, dim)), floats(call.d_first_bias, width)
    d_last, d_last_bias = floats(call.d_last, width), floats(call.d_last_bias, 1)
    b = next_job(record)
    while b < bags:
        d_gamma = g_gamma[b] if call.g_gamma != 0 else ZERO
        d_mean[b, :], d_attended[b, :] = ZERO, ZERO
        if call.g_value != 0:
            for j in range(dim):
                d_gamma += g_value[b, j] * (attended[b, j] - mean[b, j])
            _add(d_attended[b], gamma[b], g_value[b])
            _add(d_mean[b], ONE - gamma[b], g_value[b])
        d_raw = d_gamma * slope[b]
        d_last_bias[0] += d_raw
        for k in range(width):
            unit = hidden[b, k]
            d_last[k] += d_raw * unit
            d_unit = d_raw * last[k] * (ONE - unit * unit if call.free else (ONE if unit > ZERO else ZERO))
            d_first_bias[k] += d_unit
            _add(d_first[k], d_unit, mean[b])
            _add(d_mean[b], d_unit, first[k])
        b = next_job(record)


_WEIGHTS, _SIZES = "mean attended first first_bias last last_bias hidden gamma slope", "bags dim width free"
forward = Loop(_forward, arrays=f"{_WEIGHTS} value", whole=_SIZES, real="cap")
backward = Loop(
    _backward,
    arrays=f"{_WEIGHTS} g_value g_gamma d_mean d_attended d_first d_first_bias d_last d_last_bias",
    whole=_SIZES,
    real="cap",
)
