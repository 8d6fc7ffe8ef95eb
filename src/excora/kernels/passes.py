"""The four passes over the elements of a box of bags in torch operations; :mod:`excora.kernels.compiled` is faster.

Everything of attention pooling that reads ``h`` is one of these; all else is small. ``h`` is (bags, elements, dim), in
float32 or better, ``real`` boolean (bags, elements) or None for all, ``shift`` (bags, dim) a real element of each bag:
what is subtracted so that a homogeneous bag far from zero keeps its digits. Coefficients are zero in padding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from excora.functional import element_count

#: Numbers in one temporary: a long bag is centred a span of elements at a time.
SPAN = 1 << 19
#: A variance above |mu|^2 over this comes from mean square minus squared mean; else the bag is centred first.
WELL_CONDITIONED = 16.0


def survey(h: Tensor, weight: Tensor | None, real: Tensor | None, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits z_i = h_i . weight, (bags, elements); mu - shift, (bags, dim); mean_i ||h_i - mu||^2, (bags,).

    Without ``weight`` the logits are empty.
    """
    if h.device.type != "cpu":  # asking which bags are well conditioned would stall the device
        return exact_survey(h, weight, real, shift)
    share = _share(h, real)
    mean = torch.bmm(share.unsqueeze(1), h).squeeze(1)
    square = mean.square().sum(1)
    variance = (share * torch.linalg.vector_norm(h, dim=2).square()).sum(1) - square
    offset = mean - shift
    (poor,) = torch.where(~(variance * WELL_CONDITIONED > square))
    for bag in poor.tolist():
        only = slice(bag, bag + 1)
        offset[only], variance[only] = _centred(h[only], share[only], shift[only], max(SPAN // h.shape[2], 1))
    return _logits(h, weight), offset, variance


def exact_survey(h: Tensor, weight: Tensor | None, real: Tensor | None, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`survey`, every bag centred: differentiable, and the same operations whatever the numbers."""
    return _logits(h, weight), *_centred(h, _share(h, real), shift, h.shape[1])


def _logits(h: Tensor, weight: Tensor | None) -> Tensor:
    return h.new_empty(0) if weight is None else h @ weight


def _centred(h: Tensor, share: Tensor, shift: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """mu - shift and mean_i ||h_i - mu||^2 by way of h - shift, ``width`` elements at a time."""
    offset, variance = torch.zeros_like(shift), torch.zeros_like(shift[:, 0])
    if h.shape[1] == 0:
        return offset, variance
    spans = list(zip(h.split(width, 1), share.split(width, 1), strict=True))
    for x, part in spans:
        offset = offset + torch.bmm(part.unsqueeze(1), x - shift.unsqueeze(1)).squeeze(1)
    for x, part in spans:
        variance = variance + (part * (x - shift.unsqueeze(1) - offset.unsqueeze(1)).square().sum(2)).sum(1)
    return offset, variance


def weigh(h: Tensor, shift: Tensor, coefficients: Tensor) -> Tensor:  # noqa: ARG001  (of use to the compiled pass)
    """sum_i c_i h_i, (bags, dim)."""
    return torch.bmm(coefficients.unsqueeze(1), h).squeeze(1)


def project(h: Tensor, shift: Tensor, vector: Tensor, real: Tensor | None) -> Tensor:
    """(h_i - shift) . vector of each bag's own vector, (bags, elements); zero in padding."""
    # A matrix times a vector the other way round takes four times as long.
    found = torch.bmm(vector.unsqueeze(1), h.transpose(1, 2)).squeeze(1) - (shift * vector).sum(1, keepdim=True)
    return found if real is None else found.masked_fill(~real, 0.0)


def gradient(
    h: Tensor,
    shift: Tensor,
    rate: Tensor,
    alpha: Tensor,
    pull: Tensor,
    slope: Tensor,
    weight: Tensor,
    constant: Tensor,
    real: Tensor | None,
    out: Tensor,
) -> None:
    """Write rate_i (h_i - shift) + alpha_i pull + slope_i weight + constant to ``out``; zero in padding.

    Coefficients are (bags, elements), vectors (bags, dim), ``weight`` (dim,); coefficients are 0 in padding.
    """
    ones = torch.ones_like(alpha) if real is None else real.to(alpha.dtype)
    left = torch.stack([alpha, slope, ones], 2)
    right = torch.stack([pull, weight.expand_as(pull), constant], 1)
    torch.sub(h, shift.unsqueeze(1), out=out)
    torch.baddbmm(out.mul_(rate.unsqueeze(2)), left, right, out=out)


def _share(h: Tensor, real: Tensor | None) -> Tensor:
    """1 / n of each real element, 0 of padding: (bags, elements)."""
    ones = h.new_ones(h.shape[:2]) if real is None else real.to(h.dtype)
    return ones / element_count(h, real, h.shape[1])
