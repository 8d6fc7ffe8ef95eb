"""The backward loops of :mod:`excora.kernels.compiled`; names and order as in :mod:`excora.kernels.loops`.

``g_x`` is the gradient that arrives for x, ``d_x`` the one that is handed on, as in :mod:`excora.kernels.closed_form`.
A job is a group of bags, which adds up what it finds for the parameters; the groups' sums are added in their order by
whoever is done last: results do not depend on threads.
"""

# mypy: ignore-errors

from __future__ import annotations

import math

import numba
import numpy as np

from excora.extrapolation import COLD
from excora.kernels.calls import Loop, compile_loop, flags, floats, job_done, next_job
from excora.kernels.loops import CONSTANT, LINEAR, run_of, weigh
from excora.kernels.loops_gain import ONE, ZERO, add, dot, gain_backward, lerp_backward


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
def _through_softmax(w, centre, sharp, d):
    """d_alpha to d_z = alpha (d_alpha - sum alpha d_alpha) / tau, in place."""
    for i in range(len(w)):
        d[i] = w[i] * (d[i] - centre) * sharp


@compile_loop
def _rows_at_once(x, w, g_a, centre, sharp, d, moved):
    """:func:`_project`, :func:`_through_softmax` and moved += sum_i d_i x_i, four rows at a time, each read once."""
    start = len(x) // 4 * 4
    for i in range(0, start, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        d0, d1, d2, d3 = ZERO, ZERO, ZERO, ZERO
        for j in range(len(g_a)):
            d0 += x0[j] * g_a[j]
            d1 += x1[j] * g_a[j]
            d2 += x2[j] * g_a[j]
            d3 += x3[j] * g_a[j]
        d0, d1 = w[i] * (d0 - centre) * sharp, w[i + 1] * (d1 - centre) * sharp
        d2, d3 = w[i + 2] * (d2 - centre) * sharp, w[i + 3] * (d3 - centre) * sharp
        d[i], d[i + 1], d[i + 2], d[i + 3] = d0, d1, d2, d3
        for j in range(len(g_a)):
            moved[j] += (d0 * x0[j] + d1 * x1[j]) + (d2 * x2[j] + d3 * x3[j])
    for i in range(start, len(x)):
        d[i] = w[i] * (dot(x[i], g_a) - centre) * sharp
        add(moved, d[i], x[i])


@compile_loop
def _at_once(x, r, masked, w, g_a, centre, sharp, d, moved):
    """d_z to ``d``, 0 in padding, and sum_i d_z_i h_i to ``moved``, of a bag that is not shifted; how many are real."""
    count = 0
    d[:] = ZERO
    moved[:] = ZERO
    a, b = run_of(r, masked, 0, len(x))
    while a < b:
        _rows_at_once(x[a:b], w[a:b], g_a, centre, sharp, d[a:b], moved)
        count += b - a
        a, b = run_of(r, masked, b, len(x))
    return count


@compile_loop
def _d_tau(z, w, sharp, d):
    """- sum d_z z / tau."""
    moved, usual = 0.0, 0.0
    for i in range(len(z)):
        usual += w[i] * z[i] if w[i] != ZERO else ZERO  # in padding there may be anything
    usual = np.float32(usual)
    for i in range(len(z)):
        # Any constant will do, and a near one keeps the digits.
        moved -= d[i] * (z[i] - usual) if w[i] != ZERO else ZERO
    return moved * sharp


@compile_loop
def _sum(x):
    """sum_i x_i."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return np.float32(total)


@compile_loop
def _to_logits(call, b, x, r, s, shifted, w, z, a, pull, sharp, d, moved):
    """d_z to ``d`` and, of a linear scorer, sum_i d_z_i h_i to ``moved``; d_tau of the bag, and how many are real."""
    masked, linear, each = call.real != 0, call.weight != 0, (call.bags, call.elements)
    if linear and call.g_alpha == 0 and call.g_z == 0 and not shifted:
        # sum_i alpha_i h_i.g_a = a.g_a is known before the walk; of a shifted bag it would have lost its digits.
        count = _at_once(x, r, masked, w, pull, dot(a, pull), sharp, d, moved)
        # The rounding of a.g_a is the same in all rows, and h_i may be far larger than its deviations: sum d_z = 0.
        over = _sum(d)
        add(d, -over, w)
        add(moved, -over, a)
        return _d_tau(z, w, sharp, d), count
    has_a = call.g_a != 0 or call.g_value != 0
    centre, count = _pull(x, r, masked, s, w, pull, has_a, floats(call.g_alpha, each)[b], call.g_alpha != 0, d)
    _through_softmax(w, centre, sharp, d)
    d_tau = _d_tau(z, w, sharp, d)
    if call.g_z != 0:
        g_z = floats(call.g_z, each)[b]
        for i in range(len(d)):
            d[i] += g_z[i] if not masked or r[i] else ZERO
    if linear:
        weigh(x, r, masked, s, d, moved)
    return d_tau, count


@compile_loop
def _through_law(law, d_tau, tau, slope, spread):
    """d_base, d_slope and d_spread of tau = base + slope spread, or exp(base) (1 + spread)^slope."""
    if law == LINEAR:
        return d_tau, d_tau * spread, d_tau * slope
    grown = math.log1p(spread)
    return d_tau * tau, d_tau * tau * grown, d_tau * tau * slope / (1.0 + spread)


@compile_loop
def _rows(x, s, rate, w, g_a, d, weight, constant, out):
    """No shift, None, is compiled apart: a fifth less time."""
    for i in range(len(x)):
        target, row, a, c = out[i], x[i], w[i], d[i]
        for j in range(len(row)):
            near = row[j] if s is None else row[j] - s[j]
            target[j] = rate * near + a * g_a[j] + c * weight[j] + constant[j]


@compile_loop
def _write(x, r, masked, s, shifted, rate, w, g_a, d, weight, constant, out):
    """d_h = rate (h - s) + alpha g_a + d_z weight + constant; zero in padding."""
    if masked:
        for i in range(len(x)):
            if not r[i]:
                out[i, :] = ZERO
    a, b = run_of(r, masked, 0, len(x))
    while a < b:
        if shifted:
            _rows(x[a:b], s, rate, w[a:b], g_a, d[a:b], weight, constant, out[a:b])
        else:
            _rows(x[a:b], None, rate, w[a:b], g_a, d[a:b], weight, constant, out[a:b])
        a, b = run_of(r, masked, b, len(x))


@compile_loop
def _store(address, sums, factor):
    """What was found for one parameter, to where it is wanted."""
    if address != 0:
        out = floats(address, len(sums))
        for j in range(len(sums)):
            out[j] = sums[j] * factor


@compile_loop
def _finish(call, sums):
    """Adds up the groups; the gradient of a law's parameter that is one a bag is written already."""
    total, dim, width = sums[0], call.dim, call.width
    for other in range(1, len(sums)):
        add(total, ONE, sums[other])
    numbers, units = total[dim : dim + 4], total[dim + 4 : dim + 4 + 2 * width]
    _store(call.d_weight, total[:dim], np.float32(call.scale))
    _store(call.d_bias, numbers[:1], ONE)
    _store(0 if call.bases > 1 else call.d_base, numbers[1:2], ONE)
    _store(0 if call.slopes > 1 else call.d_slope, numbers[2:3], ONE)
    _store(call.d_last_bias, numbers[3:], ONE)
    _store(call.d_first_bias, units[:width], ONE)
    _store(call.d_last, units[width:], ONE)
    _store(call.d_first, total[dim + 4 + 2 * width :], ONE)


@compile_loop
def _through_residual(call, b, kept, mean, attended, d_hidden, total, d_mean, d_attended):
    """Adds what the gradients of v and gamma of bag b move; ``total`` is that of the weights, see :func:`_backward`."""
    dim, width = call.dim, call.width
    first, last = floats(call.first, (width, dim)), floats(call.last, width)
    g_value, g_gamma = floats(call.g_value, (call.bags, dim)), floats(call.g_gamma, call.bags)
    hidden, slope, gamma = kept[2 * dim : 2 * dim + width], kept[call.wide - 2], kept[call.wide - 1]
    bias, units, d_first = total[dim + 3 :], total[dim + 4 :], total[dim + 4 + 2 * width :].reshape((width, dim))
    d_gamma = g_gamma[b] if call.g_gamma != 0 else ZERO
    if call.g_value != 0:
        d_gamma += lerp_backward(g_value[b], mean, attended, gamma, d_mean, d_attended)
    bias[0] += gain_backward(
        d_gamma, mean, hidden, slope, first, last, call.free,
        d_hidden, d_mean, d_first, units[:width], units[width : 2 * width],
    )  # fmt: skip


@compile_loop
def _to_law(call, b, d_tau, tau, sigma, numbers):
    """What d_tau of bag b moves of the law's parameters, one for all bags or one a bag; returns d_sigma."""
    slope = floats(call.slope, call.slopes)[b % call.slopes]
    d_base, d_slope, d_spread = _through_law(call.law, d_tau, tau, slope, sigma / call.divisor)
    numbers[1] += d_base
    numbers[2] += d_slope
    if call.d_base != 0 and call.bases > 1:
        floats(call.d_base, call.bases)[b] = d_base
    if call.d_slope != 0 and call.slopes > 1:
        floats(call.d_slope, call.slopes)[b] = d_slope
    return d_spread / call.divisor


def _backward(record):
    """The gradients of one group of bags after another; one that has not arrived is at no address.

    ``sums`` are one row a group: d_weight, d_bias, d_base, d_slope, d_last_bias, d_first_bias, d_last, d_first.
    """
    call = numba.carray(record, 1)[0]
    bags, elements, dim, width = call.bags, call.elements, call.dim, call.width
    each, wide = (bags, elements), (bags, dim)
    h, d_h = floats(call.h, (bags, elements, dim)), floats(call.d_h, (bags, elements, dim))
    real, masked = flags(call.real, each), call.real != 0
    weights, logits = floats(call.weights, each), floats(call.logits, each)
    tau, sigma = floats(call.temperature, bags), floats(call.dispersion, bags)
    attended, mean, kept = floats(call.attended, wide), floats(call.mean, wide), floats(call.kept, (bags, call.wide))
    g_a, g_mu = floats(call.g_a, wide), floats(call.g_mu, wide)
    g_tau, g_sigma = floats(call.g_tau, bags), floats(call.g_sigma, bags)
    d_z = floats(call.d_z, each)
    sums = floats(call.sums, (call.groups, dim + 4 + (2 + dim) * width))
    beyond = call.g_value != 0 or call.g_gamma != 0
    scratch, d_hidden = np.zeros((5, dim), np.float32), np.empty(width, np.float32)
    pull, pull_mean, constant, weight, moved = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    if call.weight != 0:
        weight[:] = floats(call.weight, dim) * np.float32(call.scale)
    g = next_job(record)
    while g < call.groups:
        total = sums[g]
        total[:] = ZERO
        d_weight, numbers = total[:dim], total[dim : dim + 4]  # numbers: bias, base, slope, last bias
        for b in range(g * call.size, min((g + 1) * call.size, bags)):
            x, r, w, d, own = h[b], real[b], weights[b], d_z[b], kept[b]
            s, o = own[:dim], own[dim : 2 * dim]
            shifted = s.any()
            pull[:], pull_mean[:] = ZERO, ZERO
            if call.g_a != 0:
                pull[:] = g_a[b]
            if call.g_mu != 0:
                pull_mean[:] = g_mu[b]
            if beyond:
                _through_residual(call, b, own, mean[b], attended[b], d_hidden, total, pull_mean, pull)
            sharp = ONE / tau[b] if tau[b] > COLD else ZERO
            d_tau, count = _to_logits(call, b, x, r, s, shifted, w, logits[b], attended[b], pull, sharp, d, moved)
            d_tau += g_tau[b] if call.g_tau != 0 else ZERO
            d_sigma = np.float64(g_sigma[b]) if call.g_sigma != 0 else 0.0
            if call.law != CONSTANT:
                d_sigma += _to_law(call, b, d_tau, tau[b], sigma[b], numbers)
            if call.weight != 0:
                add(d_weight, ONE, moved)
                numbers[0] += _sum(d)
            if call.d_h != 0:
                part = ONE / np.float32(max(count, 1))
                rate = np.float32(d_sigma / sigma[b]) * part if sigma[b] > COLD else ZERO
                for j in range(dim):  # g_mu / n, and the mean of rate (h - mu) = rate (h - s) - rate (mu - s)
                    constant[j] = part * pull_mean[j] - rate * o[j]
                _write(x, r, masked, s, shifted, rate, w, pull, d, weight, constant, d_h[b])
        if job_done(record) == call.groups - 1:
            _finish(call, sums)
        g = next_job(record)


backward = Loop(
    _backward,
    arrays="h real weight slope weights logits temperature dispersion attended mean kept first last "
    "g_a g_mu g_alpha g_z g_tau g_sigma g_value g_gamma d_z d_h sums "
    "d_weight d_bias d_base d_slope d_first d_first_bias d_last d_last_bias",
    whole="bags elements dim bases slopes law width wide free groups size",
    real="scale divisor",
)
