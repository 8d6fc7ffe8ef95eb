"""The backward loops of :mod:`excora.kernels.compiled`; names and order as in :mod:`excora.kernels.loops`.

``g_x`` is the gradient that arrives for x, ``d_x`` the one that is handed on, as in :mod:`excora.kernels.closed_form`.
"""

# mypy: ignore-errors

from __future__ import annotations

import math

import numba
import numpy as np

from excora.extrapolation import COLD
from excora.kernels.calls import Loop, compile_loop, flags, floats, next_job
from excora.kernels.loops import CONSTANT, LINEAR, run_of, weigh
from excora.kernels.loops_gain import ONE, ZERO


@compile_loop
def _project(x, s, vector, d):
    for i in range(len(x)):
        row, total = x[i], ZERO
        for j in range(len(row)):
            total += (row[j] - s[j]) * vector[j]
        d[i] = total


@compile_loop
def _pull(x, r, masked, s, w, g_a, has_a, g_alpha, has_alpha, d):
    """d_alpha = (h - s).g_a + g_alpha to ``d``, 0 in padding; returns sum alpha d_alpha and how many are real."""
    centre, count = 0.0, 0
    d[:] = ZERO
    a, b = run_of(r, masked, 0, len(x))
    while a < b:
        if has_a:
            _project(x[a:b], s, g_a, d[a:b])
        count += b - a
        a, b = run_of(r, masked, b, len(x))
    for i in range(len(x)):
        if has_alpha and w[i] != ZERO:
            d[i] += g_alpha[i]
        centre += w[i] * d[i]
    return np.float32(centre), count


@compile_loop
def _through_softmax(z, w, centre, sharp, d):
    """d_alpha to d_z in place; returns d_tau = - sum d_z z / tau."""
    moved, usual = 0.0, 0.0
    for i in range(len(z)):
        usual += w[i] * z[i] if w[i] != ZERO else ZERO  # in padding there may be anything
    usual = np.float32(usual)
    for i in range(len(z)):
        d[i] = w[i] * (d[i] - centre) * sharp
        # Any constant will do, and a near one keeps the digits.
        moved -= d[i] * (z[i] - usual) if w[i] != ZERO else ZERO
    return moved * sharp


@compile_loop
def _through_law(law, d_tau, tau, slope, spread):
    """d_base, d_slope and d_spread of tau = base + slope spread, or exp(base) (1 + spread)^slope."""
    if law == LINEAR:
        return d_tau, d_tau * spread, d_tau * slope
    grown = math.log1p(spread)
    return d_tau * tau, d_tau * tau * grown, d_tau * tau * slope / (1.0 + spread)


@compile_loop
def _rows(x, s, o, rate, w, g_a, d, weight, constant, out):
    for i in range(len(x)):
        target, row, a, c = out[i], x[i], w[i], d[i]
        for j in range(len(row)):
            target[j] = rate * (row[j] - s[j] - o[j]) + a * g_a[j] + c * weight[j] + constant[j]


@compile_loop
def _write(x, r, masked, s, o, rate, w, g_a, d, weight, constant, out):
    """d_h = rate (h - mu) + alpha g_a + d_z weight + g_mu / n; zero in padding."""
    if masked:
        for i in range(len(x)):
            if not r[i]:
                out[i, :] = ZERO
    a, b = run_of(r, masked, 0, len(x))
    while a < b:
        _rows(x[a:b], s, o, rate, w[a:b], g_a, d[a:b], weight, constant, out[a:b])
        a, b = run_of(r, masked, b, len(x))


def _backward(record):
    """The gradients of one bag after another; one that has not arrived is at no address."""
    call = numba.carray(record, 1)[0]
    bags, elements, dim = call.bags, call.elements, call.dim
    each, wide = (bags, elements), (bags, dim)
    h, d_h = floats(call.h, (bags, elements, dim)), floats(call.d_h, (bags, elements, dim))
    real, masked, slope = flags(call.real, each), call.real != 0, floats(call.slope, call.slopes)
    weights, logits = floats(call.weights, each), floats(call.logits, each)
    tau, sigma = floats(call.temperature, bags), floats(call.dispersion, bags)
    shift, offset = floats(call.shift, wide), floats(call.offset, wide)
    g_a, g_mu, g_alpha = floats(call.g_a, wide), floats(call.g_mu, wide), floats(call.g_alpha, each)
    g_z, g_tau, g_sigma = floats(call.g_z, each), floats(call.g_tau, bags), floats(call.g_sigma, bags)
    d_z, d_weight = floats(call.d_z, each), floats(call.d_weight, wide)
    d_base, d_slope = floats(call.d_base, bags), floats(call.d_slope, bags)
    scratch = np.zeros((3, dim), dtype=np.float32)
    nothing, constant, weight = scratch[0], scratch[1], scratch[2]
    if call.weight != 0:
        weight[:] = floats(call.weight, dim) * np.float32(call.scale)
    b = next_job(record)
    while b < bags:
        x, r, s, w, d = h[b], real[b], shift[b], weights[b], d_z[b]
        pull = g_a[b] if call.g_a != 0 else nothing
        centre, count = _pull(x, r, masked, s, w, pull, call.g_a != 0, g_alpha[b], call.g_alpha != 0, d)
        sharp = ONE / tau[b] if tau[b] > COLD else ZERO
        d_tau = _through_softmax(logits[b], w, centre, sharp, d) + (g_tau[b] if call.g_tau != 0 else ZERO)
        d_sigma = np.float64(g_sigma[b]) if call.g_sigma != 0 else 0.0
        d_base[b], d_slope[b] = ZERO, ZERO
        if call.law != CONSTANT:
            own = _through_law(call.law, d_tau, tau[b], slope[b % len(slope)], sigma[b] / call.divisor)
            d_base[b], d_slope[b] = own[0], own[1]
            d_sigma += own[2] / call.divisor
        if call.g_z != 0:
            for i in range(elements):
                d[i] += g_z[b, i] if not masked or r[i] else ZERO
        if call.weight != 0:
            weigh(x, r, masked, s, d, d_weight[b])
        if call.d_h != 0:
            part = ONE / np.float32(max(count, 1))
            rate = np.float32(d_sigma / sigma[b]) * part if sigma[b] > COLD else ZERO
            if call.g_mu != 0:
                for j in range(dim):
                    constant[j] = part * g_mu[b, j]
            _write(x, r, masked, s, offset[b], rate, w, pull, d, weight, constant, d_h[b])
        b = next_job(record)


backward = Loop(
    _backward,
    arrays="h real weight slope weights logits temperature dispersion shift offset "
    "g_a g_mu g_alpha g_z g_tau g_sigma d_z d_weight d_base d_slope d_h",
    whole="bags elements dim slopes law",
    real="scale divisor",
)
