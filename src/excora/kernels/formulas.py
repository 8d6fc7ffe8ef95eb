"""The formulas of attention pooling, once: in plain operations they are the reference, on fast passes the forward.

Symbols: h_i element, mu mean, sigma dispersion, z logits, tau temperature, u = (z - max z) / tau, alpha = softmax(u),
a = sum_i alpha_i h_i.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from excora.extrapolation import COLD, Law
from excora.functional import at_least_float32, blank_padding, masked_softmax, safe_sqrt
from excora.kernels import passes


class Attended(NamedTuple):
    """What attention over bags yields; per-element tensors have the layout of the input, padded or flat."""

    attended: Tensor  #: sum_i alpha_i h_i, (bags, dim)
    mean: Tensor  #: mu, (bags, dim)
    weights: Tensor  #: alpha, one per element
    logits: Tensor  #: z, one per element
    temperature: Tensor  #: tau, (bags,)
    dispersion: Tensor  #: sigma, (bags,)


def formulas(
    h: Tensor,
    scores: tuple[Tensor, ...],
    law: Law | None,
    parameters: tuple[Tensor, ...],
    real: Tensor | None,
    valid: Tensor | None,
    divisor: float,
    survey: Callable[..., tuple[Tensor, Tensor, Tensor]] = passes.exact_survey,
    weigh: Callable[..., Tensor] = passes.weigh,
) -> tuple[Attended, Tensor, Tensor]:
    """One box of bags, a formula a line; also a real element of each bag, and mu minus that element.

    ``real`` are the elements of a bag, ``valid`` those of them that the softmax may weigh. Without a law tau is 1, and
    mean and dispersion, which nobody asks for then, are 0. With the default passes, differentiable to any order.
    """
    weight = scores[0] if len(scores) == 2 else None
    shift = first_element(h, real)
    if law is None:
        logits = h.new_empty(0) if weight is None else h @ weight
        mean = offset = torch.zeros_like(shift)
        sigma, tau = torch.zeros_like(shift[:, 0]), torch.ones_like(shift[:, 0])
    else:
        logits, offset, variance = survey(h, weight, real, shift)
        mean, sigma = shift + offset, safe_sqrt(variance)
        tau = law(sigma / divisor, *parameters).to(h.dtype)
    logits = scores[0] if weight is None else logits + scores[1]
    weights = masked_softmax(scaled_logits(logits, tau, valid), valid)
    attended = weigh(h, shift, weights)
    return Attended(attended, mean, weights, logits, tau, sigma), shift, offset


def plain(
    h: Tensor,
    scores: tuple[Tensor, ...],
    law: Law | None,
    parameters: tuple[Tensor, ...],
    mask: Tensor | None,
    keep: Tensor | None,
    divisor: float,
) -> Attended:
    """:func:`formulas` on a padded batch, whatever stands in its padding, in float32 or better."""
    h = blank_padding(at_least_float32(h), mask)
    scores = tuple(score.to(h.dtype) for score in scores)
    return formulas(h, scores, law, parameters, mask, both(mask, keep), divisor)[0]


def both(mask: Tensor | None, keep: Tensor | None) -> Tensor | None:
    """The conjunction of two masks either of which may be absent."""
    return mask if keep is None else keep if mask is None else mask & keep


def first_element(h: Tensor, real: Tensor | None) -> Tensor:
    """The first real element of each bag, (bags, dim), a constant to autograd; 0 for an empty bag."""
    h = h.detach()
    if h.shape[1] == 0:
        return h.new_zeros(h.shape[0], h.shape[2])
    if real is None:
        return h[:, 0]
    place = real.to(torch.uint8).argmax(1)[:, None, None].expand(-1, 1, h.shape[2])
    return h.gather(1, place).squeeze(1).masked_fill(~real.any(1, keepdim=True), 0.0)


def scaled_logits(logits: Tensor, tau: Tensor, valid: Tensor | None) -> Tensor:
    """u = (z - max z) / tau over the valid elements, finite for every tau >= 0; zero (uniform) where tau = 0."""
    if logits.shape[1] == 0:
        return logits
    tau = tau.unsqueeze(1)
    if valid is None:
        gap = logits - logits.amax(1, keepdim=True)
    else:
        top = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).amax(1, keepdim=True)
        gap = (logits - top).masked_fill(~valid, 0.0)
    warm = tau > COLD
    # exp(-1e4) is 0 in every format: limiting the gap changes no weight and keeps gap / tau^2 finite in the gradient.
    return torch.where(warm, torch.maximum(gap, -1e4 * tau) / torch.where(warm, tau, 1.0), 0.0)
