"""Attention over a box of bags in torch operations, with the closed form of its gradient: on any device.

``g_x`` is the gradient that arrives for x, ``d_x`` the one that is handed on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from excora.extrapolation import sharpness
from excora.functional import element_count, full_precision
from excora.kernels.formulas import Attended, Box, Surveyed, centred, exact_survey, formulas, share

#: Numbers in a piece of a batch that several operations read: 4 MB, which stay in the cache.
CHUNK = 1 << 20
#: Rows of a long bag in a product of their own: torch shares out products among its threads, not the rows of one.
ROWS = 64
#: A variance above |mu|^2 over this has its digits when it comes from mean square minus squared mean.
WELL_CONDITIONED = 8.0
#: Elements from which on the sums themselves lose digits, and a variance must be above |mu|^2 times n over this.
LONG = 50_000.0
#: Mean squares within these have their digits in float32.
SQUARES = 1e-30, 1e36


class Result(NamedTuple):
    """The outcome of a forward, and what the backward asks for besides."""

    found: Attended
    kept: tuple[Tensor, ...]  #: of one row a bag: here the shift s, near its elements or 0, and mu - s, (bags, dim)
    blanked: bool = False  #: whether padding had to be blanked
    beyond: tuple[Tensor, ...] = ()  #: of a box with a gain v, (bags, dim), and gamma, (bags,): of no concern here


class Gradients(NamedTuple):
    """What goes on: to the logits, (bags, elements), and to all else that is trained, in the order of a box.

    A linear scorer's weight and bias, the law's parameters, the weights of the gain.
    """

    logits: Tensor
    others: tuple[Tensor, ...]


def forward(box: Box, *, recorded: bool = True) -> Result:  # noqa: ARG001  # all the same here
    """The formulas, whatever stands in padding; ``recorded``: whether a backward will follow."""
    with full_precision(box.h.device):
        if box.real is not None:
            if box.h.device.type == "cpu":
                result = _result(box)
                # The weights of padding are 0, and 0 times NaN shows. Elsewhere asking would stall the device.
                if math.isfinite(result.found.attended.sum().item()):
                    return result
            return _result(box.blanked())._replace(blanked=True)
        return _result(box)


def _result(box: Box) -> Result:
    found, *kept = formulas(box, _survey)
    return Result(found, tuple(kept))


def _survey(box: Box) -> Surveyed:
    """In one walk; a bag is shifted, and read again, only where its conditioning asks for it."""
    if box.h.device.type != "cpu":  # asking would stall the device
        return exact_survey(box)
    h, logits = box.h, box.scores[0] if box.weight is None else box.h.new_empty(box.h.shape[:2])
    offset, variance, good = _moments(h, box.real, box, logits)
    shift, sigma = torch.zeros_like(offset), variance.sqrt()
    if not bool(good.all()):
        for some in torch.where(~good)[0].split(max(CHUNK // max(h[:1].numel(), 1), 1)):
            shift[some] = offset[some]
            offset[some], sigma[some] = _shifted(h[some], None if box.real is None else box.real[some], shift[some])
    return Surveyed(logits, shift, offset, sigma)


def _shifted(h: Tensor, real: Tensor | None, shift: Tensor) -> tuple[Tensor, Tensor]:
    """mu - shift and sigma of bags far from zero, whose elements are alike; or constant, very large or very small."""
    offset, variance, good = _moments(h.sub_(shift.unsqueeze(1)), real)
    return (offset, variance.sqrt()) if bool(good.all()) else centred(h, real, torch.zeros_like(shift))


def _moments(
    h: Tensor, real: Tensor | None, box: Box | None = None, logits: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean, (bags, dim), the variance, and which variances have their digits, (bags,); ``box`` also scores."""
    portion, lengths, mean = share(h, real), h.new_empty(h.shape[:2]), h.new_zeros(h.shape[::2])
    for bags, rows in pieces(h):
        x = h[bags, rows]
        # First, because it is the quickest to read from memory.
        torch.linalg.vector_norm(x, dim=2, out=lengths[bags, rows])
        x = x.view(-1, ROWS, x.shape[2]) if len(x) == 1 and x.shape[1] % ROWS == 0 else x
        each = len(x), 1, x.shape[1]
        if box is not None and box.weight is not None and logits is not None:
            weight, bias = box.weight.expand(len(x), 1, -1), box.scores[1].expand(each)
            torch.baddbmm(bias, weight, x.transpose(1, 2), alpha=box.scale, out=logits[bags, rows].view(each))
        found = torch.bmm(portion[bags, rows].view(each), x).squeeze(1)
        mean[bags] += found if len(found) == len(mean[bags]) else found.sum(0)
    square = mean.square().sum(1)
    variance = (lengths.square_() * portion).sum(1) - square
    least = max(1.0 / WELL_CONDITIONED, h.shape[1] / LONG)
    good = (variance.sub(square, alpha=least) > SQUARES[0]) & (variance < SQUARES[1])
    return mean, variance, good


def pieces(h: Tensor) -> list[tuple[slice, slice]]:
    """A batch cut into bags, or rows of one, so that a piece stays in the cache while several operations read it."""
    bags, elements, dim = h.shape
    # Not too many: every operation wakes torch's threads, which takes long on a busy machine.
    size = CHUNK if torch.get_num_threads() == 1 else max(CHUNK, -(-h.numel() // 8))
    if h.numel() <= 4 * CHUNK:
        return [(slice(None), slice(None))]
    if elements * dim <= size:
        step = size // (elements * dim)
        return [(slice(a, a + step), slice(None)) for a in range(0, bags, step)]
    step = max(size // dim // ROWS * ROWS, 1)
    ends = [*range(0, elements - elements % ROWS, step), elements - elements % ROWS, elements]
    parts = [slice(a, b) for a, b in itertools.pairwise(ends) if a < b]
    return [(slice(b, b + 1), part) for b in range(bags) for part in parts]


def backward(box: Box, result: Result, grads: Sequence[Tensor | None], out: Tensor | None) -> Gradients:
    """:func:`_gradients`, which autocast would lower to half precision."""
    with full_precision(box.h.device):
        return _gradients(box, result, grads, out)


def _gradients(box: Box, result: Result, grads: Sequence[Tensor | None], out: Tensor | None) -> Gradients:
    """The gradient of a box without a gain, for h written to ``out``; ``grads`` are those of the fields of Attended.

    d_alpha = h.g_a + g_alpha;  d_u = alpha (d_alpha - sum alpha d_alpha);  d_z = d_u / tau + g_z;
    d_tau = g_tau - sum d_u z / tau^2 (as sum d_u = 0);  d_sigma = d_tau dtau/dsigma + g_sigma;
    d_h = alpha g_a + d_z w + g_mu / n + d_sigma (h - mu) / (n sigma).
    """
    (shift, offset), (alpha, logits, tau, sigma) = result.kept, result.found[2:]
    g_a, g_mu, g_alpha, g_z, g_tau, g_sigma = grads
    if box.real is not None:  # what stands in padding carries nothing
        padding = ~box.real
        alpha, logits = alpha.masked_fill(padding, 0.0), logits.masked_fill(padding, 0.0)
        g_alpha, g_z = (None if g is None else g.masked_fill(padding, 0.0) for g in (g_alpha, g_z))
    d_alpha = _sum(None if g_a is None else _project(box, result.found.attended, g_a), g_alpha, alpha)
    d_u = alpha * (d_alpha - (alpha * d_alpha).sum(1, keepdim=True))
    sharp = sharpness(tau)
    d_z = d_u * sharp.unsqueeze(1)
    d_sigma, d_parameters = g_sigma, tuple[Tensor, ...]()
    if box.law is not None:
        gap = logits - (alpha * logits).sum(1, keepdim=True)  # any constant will do, and a near one keeps the digits
        through, d_parameters = _through_law(box, sigma, _sum(-(d_z * gap).sum(1) * sharp, g_tau, tau))
        d_sigma = _sum(through, g_sigma, sigma)
    d_z = _sum(d_z, g_z, alpha)
    d_scorer = tuple[Tensor, ...]()
    if box.weight is not None:
        d_scorer = torch.bmm(d_z.unsqueeze(1), box.h).sum((0, 1)) * box.scale, d_z.sum().view_as(box.scores[1])
    if out is not None:
        count = element_count(box.h, box.real, box.h.shape[1])
        rate = (_sum(d_sigma, None, sigma) * sharpness(sigma)).unsqueeze(1) / count  # 0 for a constant bag
        constant = _sum(None if g_mu is None else g_mu / count, -rate * offset, offset)
        terms = [(alpha, g_a)] if g_a is not None else []
        terms += [] if box.weight is None else [(d_z, (box.weight * box.scale).expand_as(constant))]
        _write(box, shift, rate, constant, terms, out)
    return Gradients(d_z, d_scorer + d_parameters)


def _project(box: Box, a: Tensor, vector: Tensor) -> Tensor:
    """(h_i - a) . vector of each bag's own vector, (bags, elements); zero in padding."""
    # A matrix times a vector the other way round takes four times as long.
    found = torch.bmm(vector.unsqueeze(1), box.h.transpose(1, 2)).squeeze(1) - (a * vector).sum(1, keepdim=True)
    return found if box.real is None else found.masked_fill(~box.real, 0.0)


def _write(
    box: Box, shift: Tensor, rate: Tensor, constant: Tensor, terms: list[tuple[Tensor, Tensor]], out: Tensor
) -> None:
    """out = rate (h - shift) + constant + sum of coefficient x vector over ``terms``; zero in padding."""
    ones = out.new_ones(out.shape[:2]) if box.real is None else box.real.to(out.dtype)
    left = torch.stack([ones, *(coefficient for coefficient, _ in terms)], 2)
    right = torch.stack([constant, *(vector for _, vector in terms)], 1)
    if box.law is None:
        torch.bmm(left, right, out=out)
        return
    is_shifted = shift.device.type != "cpu" or bool(shift.any())
    near = torch.sub(box.h, shift.unsqueeze(1), out=out) if is_shifted else box.h
    torch.mul(near, (rate * ones).unsqueeze(2), out=out)
    torch.baddbmm(out, left, right, out=out)


def _through_law(box: Box, sigma: Tensor, d_tau: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """d_tau through tau = law(sigma / divisor, *parameters), of one number a bag: a small graph of autograd's."""
    assert box.law is not None
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (sigma, *box.parameters)]
        tau = box.law(leaves[0] / box.divisor, *leaves[1:])
    if not tau.requires_grad:  # a law may be constant
        return torch.zeros_like(sigma), tuple(torch.zeros_like(x) for x in box.parameters)
    through, *own = torch.autograd.grad(tau, leaves, d_tau, allow_unused=True, materialize_grads=True)
    return through, tuple(own)


def _sum(first: Tensor | None, second: Tensor | None, like: Tensor) -> Tensor:
    """What is there of two terms; zeros like ``like`` if neither."""
    if first is None:
        return torch.zeros_like(like) if second is None else second
    return first if second is None else first + second
