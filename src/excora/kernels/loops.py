"""The loops of :mod:`excora.kernels.compiled`, bag by bag, so that a bag is in the cache when it is read again.

The formulas are those of :mod:`excora.kernels.closed_form`. Of one bag: x (elements, dim), r and k (elements,) its
masks if there are any, s the shift, (dim,). Rows are walked in runs of real ones, because a condition inside the loop
over rows would keep it from running in vectors. Padding is never read.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from excora.extrapolation import COLD

#: Rows that are walked at a time.
ROWS = 256
#: A variance above |mu - shift|^2 over this has its digits; else the shift was an outlier.
WELL_CONDITIONED = 64.0
#: The laws of the temperature.
CONSTANT, LINEAR, POWER = 0, 1, 2

_ZERO, _ONE, _INFINITY = np.float32(0.0), np.float32(1.0), np.float32(np.inf)


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    # Sums may be reordered, so that they run in vectors; NaN and infinity keep their meaning.
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    }
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep a cache
        return numba.njit(**options)(function)


@_compile
def _run_of(r, masked, start, elements):
    """Where the next run of real rows begins and ends, from ``start``; at most ROWS of them."""
    while masked and start < elements and not r[start]:
        start += 1
    end = min(start + ROWS, elements)
    if masked:
        for i in range(start, end):
            if not r[i]:
                return start, i
    return start, end


@_compile
def _dots(x, weight, scale, bias, z):
    for i in range(len(x)):
        row, score = x[i], _ZERO
        for j in range(len(row)):
            score += row[j] * weight[j]
        z[i] = score * scale + bias


@_compile
def _squares(x, s, part):
    square = 0.0
    for i in range(len(x)):
        row, near = x[i], _ZERO
        for j in range(len(row)):
            v = row[j] - s[j]
            part[j] += v
            near += v * v
        square += near
    return square


@_compile
def _dots_and_squares(x, weight, scale, bias, z, s, part):
    """Both in one loop: a number is read once."""
    square = 0.0
    for i in range(len(x)):
        row, score, near = x[i], _ZERO, _ZERO
        for j in range(len(row)):
            v = row[j] - s[j]
            score += row[j] * weight[j]
            part[j] += v
            near += v * v
        z[i] = score * scale + bias
        square += near
    return square


@_compile
def _survey(x, r, masked, s, linear, weight, scale, bias, z, measured, part, offset):
    """z_i = h_i . weight scale + bias, 0 in padding; mu - s to ``offset``; mean_i ||h_i - s||^2 and ||mu - s||^2.

    ``linear`` and ``measured`` say which of the two are asked for; ``part`` is scratch.
    """
    square, norm, count = 0.0, 0.0, 0
    offset[:] = _ZERO
    if linear and masked:
        z[:] = _ZERO
    a, b = _run_of(r, masked, 0, len(x))
    while a < b:
        part[:] = _ZERO  # a run's sum first: so that long bags keep their digits
        if linear and measured:
            square += _dots_and_squares(x[a:b], weight, scale, bias, z[a:b], s, part)
        elif linear:
            _dots(x[a:b], weight, scale, bias, z[a:b])
        elif measured:
            square += _squares(x[a:b], s, part)
        for j in range(len(s)):
            offset[j] += part[j]
        count += b - a
        a, b = _run_of(r, masked, b, len(x))
    for j in range(len(s)):
        offset[j] /= np.float32(max(count, 1))
        norm += np.float64(offset[j]) * offset[j]
    return square / max(count, 1), norm


@_compile
def _spread(x, r, masked, s, square, norm, part, mean, offset):
    """What was surveyed as mu to ``mean``; returns sigma."""
    for j in range(len(s)):
        mean[j] = s[j] + offset[j]
    if not (square - norm) * WELL_CONDITIONED > norm and norm > 0.0:  # the shift was an outlier: by the mean then
        rest = np.empty_like(s)
        square, norm = _survey(x, r, masked, mean, False, s, _ONE, _ZERO, s, True, part, rest)
        for j in range(len(s)):
            offset[j] += rest[j]
            mean[j] += rest[j]
    return np.float32(math.sqrt(max(square - norm, 0.0)))


@_compile
def _exp(x):
    """e^x for x <= 0 in float32, to 2 ulp: 2^k e^r with |r| <= log(2) / 2. The library's runs a number at a time."""
    x = max(x, np.float32(-87.0))
    k = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = x - k * np.float32(0.693359375) + k * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + _ONE
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@_compile
def _soften(z, r, masked, k, dropped, sharp, w):
    """alpha = softmax((z - max z) sharp) over the elements that are neither padding nor dropped."""
    top, total = -_INFINITY, 0.0
    for i in range(len(z)):
        w[i] = z[i]
        if (masked and not r[i]) or (dropped and not k[i]):
            w[i] = -_INFINITY
        top = max(top, w[i])
    if top == -_INFINITY:  # nobody to attend
        w[:] = _ZERO
        return
    for i in range(len(z)):
        u = (w[i] - top) * sharp if w[i] > -_INFINITY else -_INFINITY
        w[i] = _exp(u) if u > np.float32(-87.0) else _ZERO
        if math.isnan(u):
            w[i] = u
    for i in range(len(z)):
        total += w[i]
    scale = np.float32(1.0 / total)
    for i in range(len(z)):
        w[i] *= scale


@_compile
def _add_up(x, s, c, a):
    for i in range(len(x)):
        factor, row = c[i], x[i]
        for j in range(len(row)):
            a[j] += factor * (row[j] - s[j])


@_compile
def _weigh(x, r, masked, s, c, a):
    """sum_i c_i h_i = sum_i c_i (h_i - s) + s sum_i c_i; c is 0 in padding."""
    total = _ZERO
    a[:] = _ZERO
    first, last = _run_of(r, masked, 0, len(x))
    while first < last:
        _add_up(x[first:last], s, c[first:last], a)
        first, last = _run_of(r, masked, last, len(x))
    for i in range(len(x)):
        total += c[i]
    for j in range(len(s)):
        a[j] += total * s[j]


@_compile
def forward(
    first, last, h, real, masked, keep, dropped, linear, weight, scale, bias, law, base, slope, divisor,
    attended, mean, weights, logits, tau, sigma, shift, offset,
):  # fmt: skip
    """Bags ``first`` to ``last``: the formulas, in order."""
    mean[first:last] = _ZERO
    for b in range(first, last):
        x, r, k, s = h[b], real[b % len(real)], keep[b % len(keep)], shift[b]
        start, _ = _run_of(r, masked, 0, len(x))
        s[:] = _ZERO
        if start < len(x):
            s[:] = x[start]
        tau[b], sigma[b] = _ONE, _ZERO
        square, norm = _survey(
            x, r, masked, s, linear, weight, scale, bias, logits[b], law != CONSTANT, attended[b], offset[b]
        )
        if law != CONSTANT:
            sigma[b] = _spread(x, r, masked, s, square, norm, attended[b], mean[b], offset[b])
            t, e, spread = base[b % len(base)], slope[b % len(slope)], sigma[b] / divisor
            tau[b] = t + e * spread if law == LINEAR else math.exp(t + e * math.log1p(spread))
        sharp = _ONE / tau[b] if tau[b] > COLD else _ZERO
        _soften(logits[b], r, masked, k, dropped, sharp, weights[b])
        _weigh(x, r, masked, s, weights[b], attended[b])


@_compile
def _project(x, s, vector, d):
    for i in range(len(x)):
        row, total = x[i], _ZERO
        for j in range(len(row)):
            total += (row[j] - s[j]) * vector[j]
        d[i] = total


@_compile
def _pull(x, r, masked, s, w, g_a, has_a, g_alpha, has_alpha, d):
    """d_alpha = (h - s).g_a + g_alpha to ``d``, 0 in padding; returns sum alpha d_alpha and how many are real."""
    centre, count = 0.0, 0
    d[:] = _ZERO
    a, b = _run_of(r, masked, 0, len(x))
    while a < b:
        if has_a:
            _project(x[a:b], s, g_a, d[a:b])
        count += b - a
        a, b = _run_of(r, masked, b, len(x))
    for i in range(len(x)):
        if has_alpha and w[i] != _ZERO:
            d[i] += g_alpha[i]
        centre += w[i] * d[i]
    return np.float32(centre), count


@_compile
def _through_softmax(z, w, centre, sharp, d):
    """d_alpha to d_z in place; returns d_tau = - sum d_z z / tau."""
    moved = 0.0
    for i in range(len(z)):
        d[i] = w[i] * (d[i] - centre) * sharp
        moved -= d[i] * (z[i] - z[0])  # any constant will do, and a near one keeps the digits
    return moved * sharp


@_compile
def _through_law(law, d_tau, tau, slope, spread):
    """d_base, d_slope and d_spread of tau = base + slope spread, or exp(base) (1 + spread)^slope."""
    if law == LINEAR:
        return d_tau, d_tau * spread, d_tau * slope
    grown = math.log1p(spread)
    return d_tau * tau, d_tau * tau * grown, d_tau * tau * slope / (1.0 + spread)


@_compile
def _rows(x, s, o, rate, w, g_a, d, weight, constant, out):
    for i in range(len(x)):
        target, row, a, c = out[i], x[i], w[i], d[i]
        for j in range(len(row)):
            target[j] = rate * (row[j] - s[j] - o[j]) + a * g_a[j] + c * weight[j] + constant[j]


@_compile
def _write(x, r, masked, s, o, rate, w, g_a, d, weight, constant, out):
    """d_h = rate (h - mu) + alpha g_a + d_z weight + g_mu / n; zero in padding."""
    if masked:
        for i in range(len(x)):
            if not r[i]:
                out[i, :] = _ZERO
    a, b = _run_of(r, masked, 0, len(x))
    while a < b:
        _rows(x[a:b], s, o, rate, w[a:b], g_a, d[a:b], weight, constant, out[a:b])
        a, b = _run_of(r, masked, b, len(x))


@_compile
def backward(
    first, last, h, real, masked, linear, weight, law, slope, divisor,
    weights, logits, tau, sigma, shift, offset,
    g_a, g_mu, g_alpha, g_z, g_tau, g_sigma, has_a, has_mu, has_alpha, has_z,
    d_z, d_weight, d_base, d_slope, wants, d_h,
):  # fmt: skip
    """Bags ``first`` to ``last``: their gradients; ``has_x`` says whether one has arrived for x."""
    constant = np.zeros(h.shape[2], dtype=np.float32)
    for b in range(first, last):
        x, r, s, w, d = h[b], real[b % len(real)], shift[b], weights[b], d_z[b]
        pull, alpha = g_a[b % len(g_a)], g_alpha[b % len(g_alpha)]
        centre, count = _pull(x, r, masked, s, w, pull, has_a, alpha, has_alpha, d)
        sharp = _ONE / tau[b] if tau[b] > COLD else _ZERO
        d_tau = _through_softmax(logits[b], w, centre, sharp, d) + g_tau[b % len(g_tau)]
        d_sigma = np.float64(g_sigma[b % len(g_sigma)])
        if law != CONSTANT:
            own = _through_law(law, d_tau, tau[b], slope[b % len(slope)], sigma[b] / divisor)
            d_base[b], d_slope[b] = own[0], own[1]
            d_sigma += own[2] / divisor
        if has_z:
            for i in range(len(x)):
                d[i] += g_z[b, i]
        if linear:
            _weigh(x, r, masked, s, d, d_weight[b])
        if wants:
            each = _ONE / np.float32(max(count, 1))
            rate = np.float32(d_sigma / sigma[b]) * each if sigma[b] > COLD else _ZERO
            if has_mu:
                for j in range(len(s)):
                    constant[j] = each * g_mu[b, j]
            _write(x, r, masked, s, offset[b], rate, w, pull, d, weight, constant, d_h[b])
