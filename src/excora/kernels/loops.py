"""The forward loops of :mod:`excora.kernels.compiled`, bag by bag: a bag is in the cache when it is read again.

The formulas are those of :mod:`excora.kernels.closed_form`. Of one bag: x (elements, dim), r and k (elements,) its
masks if there are any, s the shift, (dim,), 0 unless elements are alike and far from 0. Rows are walked in runs of real
ones, because a condition inside the loop over rows would keep it from running in vectors. Padding is never read.
"""

# mypy: ignore-errors

from __future__ import annotations

import math

import numba
import numpy as np

from excora.extrapolation import COLD
from excora.kernels.calls import Loop, compile_loop, flags, floats, next_job
from excora.kernels.closed_form import SQUARES
from excora.kernels.loops_gain import ONE, ZERO, gain, lerp

#: Rows that are walked at a time.
ROWS = 256
#: Numbers of a bag that is near, in the second cache, when it is read again; from further away one row at a time is
#: faster, because the processor foresees it.
NEAR = 1 << 17
#: A variance above |mu - shift|^2 over this has its digits.
WELL_CONDITIONED = 16.0
#: Two elements are alike, and the bag is shifted by one, where |x - y|^2 is below |x|^2 over this.
ALIKE = 4.0
#: Mean squares within these have their digits in float32.
SMALLEST, LARGEST = SQUARES
#: The laws of the temperature.
CONSTANT, LINEAR, POWER = 0, 1, 2

_INFINITY = np.float32(np.inf)


@compile_loop
def run_of(r, masked, start, elements):
    """Where the next run of real rows begins and ends, from ``start``; at most ROWS of them."""
    while masked and start < elements and not r[start]:
        start += 1
    end = min(start + ROWS, elements)
    if masked:
        for i in range(start, end):
            if not r[i]:
                return start, i
    return start, end


@compile_loop
def _dots(x, weight, scale, bias, z):
    for i in range(len(x)):
        row, score = x[i], ZERO
        for j in range(len(row)):
            score += row[j] * weight[j]
        z[i] = score * scale + bias


@compile_loop
def _alike(x, y):
    """Whether two elements are so near to each other, for their size, that digits of the dispersion would be lost."""
    apart, size = 0.0, 0.0
    for j in range(len(x)):
        apart += (np.float64(x[j]) - y[j]) ** 2
        size += np.float64(x[j]) ** 2
    return apart * ALIKE < size


@compile_loop
def _squares(x, s, part):
    square = 0.0
    for i in range(len(x)):
        row, near = x[i], ZERO
        for j in range(len(row)):
            v = row[j] if s is None else row[j] - s[j]
            part[j] += v
            near += v * v
        square += near
    return square


@compile_loop
def _dots_and_squares(x, weight, scale, bias, z, s, part):
    """Both in one loop: a number is read once. No shift, None, is compiled apart: a fifth less time."""
    square = 0.0
    for i in range(len(x)):
        row, score, near = x[i], ZERO, ZERO
        for j in range(len(row)):
            v = row[j] if s is None else row[j] - s[j]
            score += row[j] * weight[j]
            part[j] += v
            near += v * v
        z[i] = score * scale + bias
        square += near
    return square


@compile_loop
def _survey(x, r, masked, s, shifted, linear, weight, scale, bias, z, measured, part, offset):
    """z_i = h_i . weight scale + bias, 0 in padding; mu - s to ``offset``; mean_i ||h_i - s||^2 and ||mu - s||^2.

    ``linear`` and ``measured`` say which of the two are asked for; ``part`` is scratch.
    """
    square, norm, count = 0.0, 0.0, 0
    offset[:] = ZERO
    if linear and masked:
        z[:] = ZERO
    a, b = run_of(r, masked, 0, len(x))
    while a < b:
        part[:] = ZERO  # a run's sum first: so that long bags keep their digits
        if linear and measured and shifted:
            square += _dots_and_squares(x[a:b], weight, scale, bias, z[a:b], s, part)
        elif linear and measured:
            square += _dots_and_squares(x[a:b], weight, scale, bias, z[a:b], None, part)
        elif linear:
            _dots(x[a:b], weight, scale, bias, z[a:b])
        elif measured:
            square += _squares(x[a:b], s, part) if shifted else _squares(x[a:b], None, part)
        for j in range(len(s)):
            offset[j] += part[j]
        count += b - a
        a, b = run_of(r, masked, b, len(x))
    for j in range(len(s)):
        offset[j] /= np.float32(max(count, 1))
        norm += np.float64(offset[j]) * offset[j]
    return square / max(count, 1), norm


@compile_loop
def _exact(x, r, masked, s, offset):
    """mu - s to ``offset``, and the mean of ||h - mu||^2, in float64: slow, and right for every bag."""
    total, count, square = np.zeros(len(s)), 0, 0.0
    for i in range(len(x)):
        if not masked or r[i]:
            count += 1
            for j in range(len(s)):
                total[j] += np.float64(x[i, j]) - s[j]
    total /= max(count, 1)
    for i in range(len(x)):
        if not masked or r[i]:
            for j in range(len(s)):
                square += (np.float64(x[i, j]) - s[j] - total[j]) ** 2
    for j in range(len(s)):
        offset[j] = total[j]
    return square / max(count, 1)


@compile_loop
def _spread(x, r, masked, s, square, norm, mean, offset):
    """What was surveyed as mu to ``mean``; returns sigma."""
    variance = square - norm
    # Else the shift was an outlier, or the squares have left float32.
    if not (variance * WELL_CONDITIONED > norm and SMALLEST < square < LARGEST):
        variance = _exact(x, r, masked, s, offset)
    for j in range(len(s)):
        mean[j] = s[j] + offset[j]
    return np.float32(math.sqrt(max(variance, 0.0)))


@compile_loop
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
    p = p * r * r + r + ONE
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@compile_loop
def _soften(z, r, masked, k, dropped, sharp, w):
    """alpha = softmax((z - max z) sharp) over the elements that are neither padding nor dropped."""
    top, total = -_INFINITY, 0.0
    for i in range(len(z)):
        w[i] = z[i]
        if (masked and not r[i]) or (dropped and not k[i]):
            w[i] = -_INFINITY
        top = max(top, w[i])
    if top == -_INFINITY:  # nobody to attend
        w[:] = ZERO
        return
    for i in range(len(z)):
        u = (w[i] - top) * sharp if w[i] > -_INFINITY else -_INFINITY
        w[i] = _exp(u) if u > np.float32(-87.0) else ZERO
        if math.isnan(u):
            w[i] = u
    for i in range(len(z)):
        total += w[i]
    scale = np.float32(1.0 / total)
    for i in range(len(z)):
        w[i] *= scale


@compile_loop
def _add_up(x, s, c, near, a):
    """a += sum_i c_i (x_i - s), four rows at a time where they are near: a and s are read once for all four."""
    start = 0
    if near:
        start = len(x) // 4 * 4
        for i in range(0, start, 4):
            x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
            c0, c1, c2, c3 = c[i], c[i + 1], c[i + 2], c[i + 3]
            for j in range(len(s)):
                t = s[j]
                a[j] += (c0 * (x0[j] - t) + c1 * (x1[j] - t)) + (c2 * (x2[j] - t) + c3 * (x3[j] - t))
    for i in range(start, len(x)):
        factor, row = c[i], x[i]
        for j in range(len(row)):
            a[j] += factor * (row[j] - s[j])


@compile_loop
def weigh(x, r, masked, s, c, a):
    """sum_i c_i h_i = sum_i c_i (h_i - s) + s sum_i c_i; c is 0 in padding."""
    total = ZERO
    a[:] = ZERO
    first, last = run_of(r, masked, 0, len(x))
    while first < last:
        _add_up(x[first:last], s, c[first:last], x.size <= NEAR, a)
        first, last = run_of(r, masked, last, len(x))
    for i in range(len(x)):
        total += c[i]
    for j in range(len(s)):
        a[j] += total * s[j]


def _forward(record):
    """The formulas, in order, of one bag after another, as long as there are any; gain and residual if it has units.

    ``kept`` is a row a bag for the backward: s, mu - s, then of the gain its units, its slope, gamma.
    """
    call = numba.carray(record, 1)[0]
    bags, elements, dim = call.bags, call.elements, call.dim
    h, weight = floats(call.h, (bags, elements, dim)), floats(call.weight, dim)
    real, keep = flags(call.real, (bags, elements)), flags(call.keep, (bags, elements))
    base, slope = floats(call.base, call.bases), floats(call.slope, call.slopes)
    attended, mean = floats(call.attended, (bags, dim)), floats(call.mean, (bags, dim))
    weights, logits = floats(call.weights, (bags, elements)), floats(call.logits, (bags, elements))
    tau, sigma = floats(call.temperature, bags), floats(call.dispersion, bags)
    width, wide, stored = call.width, call.wide, call.kept != 0  # else no backward will ask for it
    kept = floats(call.kept, (bags, wide)) if stored else np.empty((1, wide), np.float32)
    linear, masked, dropped, law = call.weight != 0, call.real != 0, call.keep != 0, call.law
    scale, bias = np.float32(call.scale), floats(call.bias, 1)[0] if linear else ZERO
    first, first_bias = floats(call.first, (width, dim)), floats(call.first_bias, width)
    last, last_bias = floats(call.last, width), floats(call.last_bias, 1)
    value, gamma = floats(call.value, (bags, dim)), floats(call.gamma, bags)
    b = next_job(record)
    while b < bags:
        x, r, own = h[b], real[b], kept[b if stored else 0]
        s, o, hidden = own[:dim], own[dim : 2 * dim], own[2 * dim : 2 * dim + width]
        start, end = run_of(r, masked, 0, elements)
        shifted = start < end and _alike(x[start], x[(start + end) // 2])
        s[:] = ZERO
        if shifted:
            s[:] = x[start]
        tau[b], sigma[b] = ONE, ZERO
        measured = law != CONSTANT
        square, norm = _survey(
            x, r, masked, s, shifted, linear, weight, scale, bias, logits[b], measured, attended[b], o
        )
        if law == CONSTANT:
            mean[b, :] = ZERO
        else:
            sigma[b] = _spread(x, r, masked, s, square, norm, mean[b], o)
            t, e, spread = base[b % len(base)], slope[b % len(slope)], sigma[b] / call.divisor
            tau[b] = t + e * spread if law == LINEAR else math.exp(t + e * math.log1p(spread))
        sharp = ONE / tau[b] if tau[b] > COLD else ZERO
        _soften(logits[b], r, masked, keep[b], dropped, sharp, weights[b])
        weigh(x, r, masked, s, weights[b], attended[b])
        own[wide - 2 :] = ZERO
        if width > 0:
            gamma[b], own[wide - 2] = gain(mean[b], first, first_bias, last, last_bias, call.free, call.cap, hidden)
            own[wide - 1] = gamma[b]
            lerp(mean[b], attended[b], gamma[b], value[b])
        b = next_job(record)


forward = Loop(
    _forward,
    arrays="h real keep weight bias base slope attended mean weights logits temperature dispersion kept "
    "first first_bias last last_bias value gamma",
    whole="bags elements dim bases slopes law width wide free",
    real="scale divisor cap",
)
