"""Attention over a box of bags in torch operations, with the closed form of its gradient: on any device.

``g_x`` is the gradient that arrives for x, ``d_x`` the one that is handed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from excora.extrapolation import sharpness
from excora.functional import element_count, safe_sqrt
from excora.kernels.formulas import Attended, Box, centred, exact_survey, formulas, raw_logits, share

#: A variance above |mu|^2 over this comes from mean square minus squared mean; else the bag is centred first.
WELL_CONDITIONED = 1.0
#: Mean squares within these have their digits in float32.
SQUARES = 1e-30, 1e36


#: Whether NaN in padding can reach a result.
READS_PADDING = True


class Result(NamedTuple):
    """The outcome of a forward, and what the backward asks for besides."""

    found: Attended
    shift: Tensor  #: a real element of each bag, (bags, dim): what is subtracted before digits could be lost
    offset: Tensor  #: mu - shift, (bags, dim)


class Gradients(NamedTuple):
    """What goes on: to the logits, to a linear scorer's weight (summed over the bags), to the law's parameters."""

    logits: Tensor
    weight: Tensor | None
    parameters: tuple[Tensor, ...]


def forward(box: Box) -> Result:
    """The formulas; NaN in padding shows in the attended value."""
    return Result(*formulas(box, _survey))


def _survey(box: Box, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A bag is centred only where its conditioning asks for it."""
    if box.h.device.type != "cpu":  # asking would stall the device
        return exact_survey(box, shift)
    portion = share(box.h, box.real)
    mean = torch.bmm(portion.unsqueeze(1), box.h).squeeze(1)
    square = mean.square().sum(1)
    variance = (portion * torch.linalg.vector_norm(box.h, dim=2).square()).sum(1) - square
    offset, sigma = mean - shift, safe_sqrt(variance)
    good = (variance * WELL_CONDITIONED > square) & (variance > SQUARES[0]) & (variance < SQUARES[1])
    for bag in torch.where(~good)[0].tolist():
        only = slice(bag, bag + 1)
        real = None if box.real is None else box.real[only]
        offset[only], sigma[only] = centred(box.h[only], real, shift[only])
    return raw_logits(box), offset, sigma


def backward(box: Box, result: Result, grads: Sequence[Tensor | None], out: Tensor | None) -> Gradients:
    """The gradient of the box, its part for h written to ``out``; ``grads`` are those of the fields of Attended.

    d_alpha = h.g_a + g_alpha;  d_u = alpha (d_alpha - sum alpha d_alpha);  d_z = d_u / tau + g_z;
    d_tau = g_tau - sum d_u z / tau^2 (as sum d_u = 0);  d_sigma = d_tau dtau/dsigma + g_sigma;
    d_h = alpha g_a + d_z w + g_mu / n + d_sigma (h - mu) / (n sigma).
    """
    alpha, logits, tau, sigma = result.found[2:]
    g_a, g_mu, g_alpha, g_z, g_tau, g_sigma = grads
    d_alpha = _sum(None if g_a is None else _project(box, result.shift, g_a), g_alpha, alpha)
    d_u = alpha * (d_alpha - (alpha * d_alpha).sum(1, keepdim=True))
    sharp = sharpness(tau)
    d_z = d_u * sharp.unsqueeze(1)
    d_sigma, d_parameters = g_sigma, tuple(torch.zeros_like(x) for x in box.parameters)
    if box.law is not None:
        gap = logits - (alpha * logits).sum(1, keepdim=True)  # any constant will do, and a near one keeps the digits
        through, d_parameters = _through_law(box, sigma, _sum(-(d_z * gap).sum(1) * sharp, g_tau, tau))
        d_sigma = _sum(through, g_sigma, sigma)
    d_z = _sum(d_z, g_z, alpha)
    weight = None if box.weight is None else box.weight * box.scale
    d_weight = None if weight is None else torch.bmm(d_z.unsqueeze(1), box.h).sum((0, 1)) * box.scale
    if out is not None:
        count = element_count(box.h, box.real, box.h.shape[1])
        rate = (_sum(d_sigma, None, sigma) * sharpness(sigma)).unsqueeze(1) / count  # 0 for a constant bag
        constant = _sum(None if g_mu is None else g_mu / count, -rate * result.offset, result.offset)
        terms = [(alpha, g_a)] if g_a is not None else []
        terms += [(d_z, weight.expand_as(constant))] if weight is not None else []
        _write(box, result.shift, rate, constant, terms, out)
    return Gradients(d_z, d_weight, d_parameters)


def _project(box: Box, shift: Tensor, vector: Tensor) -> Tensor:
    """(h_i - shift) . vector of each bag's own vector, (bags, elements); zero in padding."""
    # A matrix times a vector the other way round takes four times as long.
    found = torch.bmm(vector.unsqueeze(1), box.h.transpose(1, 2)).squeeze(1) - (shift * vector).sum(1, keepdim=True)
    return found if box.real is None else found.masked_fill(~box.real, 0.0)


def _write(
    box: Box, shift: Tensor, rate: Tensor, constant: Tensor, terms: list[tuple[Tensor, Tensor]], out: Tensor
) -> None:
    """out = rate (h - shift) + constant + sum of coefficient x vector over ``terms``; zero in padding."""
    ones = out.new_ones(out.shape[:2]) if box.real is None else box.real.to(out.dtype)
    left = torch.stack([ones, *(coefficient for coefficient, _ in terms)], 2)
    right = torch.stack([constant, *(vector for _, vector in terms)], 1)
    torch.sub(box.h, shift.unsqueeze(1), out=out)
    torch.baddbmm(out.mul_((rate * ones).unsqueeze(2)), left, right, out=out)


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
