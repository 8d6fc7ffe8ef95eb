"""The formulas of attention pooling on one box of bags, in plain operations: differentiable to any order.

Symbols: h_i element, mu mean, sigma dispersion, z logits, tau temperature, u = (z - max z) / tau, alpha = softmax(u),
a = sum_i alpha_i h_i. Two modules compute the same faster, with a gradient of their own, and are tested against this
one: :mod:`excora.kernels.closed_form` in torch operations, :mod:`excora.kernels.compiled` by numba.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from excora.extrapolation import COLD, Law, extrapolate, mlp_gain
from excora.functional import at_least_float32, blank_padding, safe_sqrt

#: The form of a gain, and its largest gamma.
Form = tuple[str, float]


@dataclass  # no tuple: torch 2.8 does not trace its properties
class Box:
    """Bags of one length, padded: what attention over them depends on."""

    h: Tensor  #: (bags, elements, dim), in float32 or better
    real: Tensor | None  #: (bags, elements), False for padding; None: all are real
    keep: Tensor | None  #: (bags, elements), False: dropped from the softmax, yet in mean and dispersion
    scores: tuple[Tensor, ...]  #: (weight, bias) of a linear scorer z = h.weight scale + bias, or (logits,)
    law: Law | None  #: tau = law(sigma / divisor, *parameters); None: tau = 1, and neither mean nor dispersion
    parameters: tuple[Tensor, ...]  #: each one number, or one a bag
    divisor: float = 1.0
    scale: float = 1.0
    form: Form | None = None  #: of the gain, of the residual v = mu + gain(mu) (a - mu); None: there is none
    gain: tuple[Tensor, ...] = ()  #: the weights of the gain, those of :func:`excora.extrapolation.mlp_gain`

    @property
    def weight(self) -> Tensor | None:
        """The linear scorer's, (dim,), without its scale."""
        return self.scores[0] if len(self.scores) == 2 else None

    @property
    def valid(self) -> Tensor | None:
        """The elements that the softmax may weigh."""
        return self.real if self.keep is None else self.keep if self.real is None else self.real & self.keep

    def blanked(self) -> Box:
        """The same with zeros in padding."""
        return self.of(blank_padding(self.h, self.real), self.scores)

    def of(self, h: Tensor, scores: tuple[Tensor, ...]) -> Box:
        """The same of other elements and scores; no replace(), which torch 2.8 does not trace."""
        same = self.real, self.keep, scores, self.law, self.parameters, self.divisor, self.scale, self.form, self.gain
        return Box(h, *same)


class Attended(NamedTuple):
    """What attention over bags yields; per-element tensors have the layout of the input, padded or flat."""

    attended: Tensor  #: sum_i alpha_i h_i, (bags, dim)
    mean: Tensor  #: mu, (bags, dim)
    weights: Tensor  #: alpha, one per element
    logits: Tensor  #: z, one per element
    temperature: Tensor  #: tau, (bags,)
    dispersion: Tensor  #: sigma, (bags,)


class Surveyed(NamedTuple):
    """What a pass over the elements finds before the softmax may start."""

    logits: Tensor  #: z, (bags, elements)
    shift: Tensor  #: near the elements of a bag, or 0, (bags, dim): subtracted before digits could be lost
    offset: Tensor  #: mu - shift, (bags, dim)
    dispersion: Tensor  #: sigma, (bags,)


def plain(box: Box) -> Attended:
    """The formulas, whatever stands in padding and whatever the precision of the input."""
    h = at_least_float32(box.h)
    return formulas(box.of(h, tuple(x.to(h.dtype) for x in box.scores)).blanked(), exact_survey)[0]


def residual(box: Box, found: Attended) -> tuple[Tensor, ...]:
    """v = mu + gamma (a - mu) and gamma = gain(mu), (bags, dim) and (bags,); nothing if there is no gain."""
    if box.form is None:
        return ()
    gamma = mlp_gain(found.mean, *box.gain, form=box.form[0], cap=box.form[1])
    return extrapolate(found.mean, found.attended, gamma.unsqueeze(1)), gamma


def formulas(box: Box, survey: Callable[[Box], Surveyed]) -> tuple[Attended, Tensor, Tensor]:
    """A formula a line; also shift and offset, see :class:`Surveyed`."""
    if box.law is None:
        mean = shift = offset = box.h.new_zeros(box.h.shape[::2])
        logits, sigma, tau = scored(box), mean.new_zeros(len(mean)), mean.new_ones(len(mean))
    else:
        logits, shift, offset, sigma = survey(box)
        mean = shift + offset
        tau = box.law(sigma / box.divisor, *box.parameters).to(box.h.dtype)
    weights = soften(logits, tau, box.valid)
    attended = torch.bmm(weights.unsqueeze(1), box.h).squeeze(1)
    return Attended(attended, mean, weights, logits, tau, sigma), shift, offset


def first_element(h: Tensor, real: Tensor | None) -> Tensor:
    """The first real element of each bag, (bags, dim), a constant to autograd; 0 for an empty bag."""
    h = h.detach()
    if h.shape[1] == 0:
        return h.new_zeros(h.shape[0], h.shape[2])
    if real is None:
        return h[:, 0]
    place = real.to(torch.uint8).argmax(1)[:, None, None].expand(-1, 1, h.shape[2])
    return h.gather(1, place).squeeze(1).masked_fill(~real.any(1, keepdim=True), 0.0)


def exact_survey(box: Box) -> Surveyed:
    """By way of h - shift, which keeps the digits of a homogeneous bag far from zero."""
    shift = first_element(box.h, box.real)
    return Surveyed(scored(box), shift, *centred(box.h, box.real, shift))


def scored(box: Box) -> Tensor:
    """z, (bags, elements)."""
    return box.scores[0] if box.weight is None else box.h @ box.weight * box.scale + box.scores[1]


def share(h: Tensor, real: Tensor | None) -> Tensor:
    """1 / n of each real element, 0 of padding: (bags, elements)."""
    if real is None:
        return h.new_full(h.shape[:2], 1.0 / max(h.shape[1], 1))
    ones = real.to(h.dtype)
    return ones / ones.sum(1, keepdim=True).clamp_min(1.0)


def centred(h: Tensor, real: Tensor | None, shift: Tensor) -> tuple[Tensor, Tensor]:
    """mu - shift = sum_i (h_i - shift) / n, and sigma = sqrt(sum_i ||h_i - mu||^2 / n)."""
    portion, near = share(h, real), blank_padding(h - shift.unsqueeze(1), real)
    offset = torch.bmm(portion.unsqueeze(1), near).squeeze(1)
    # In units of the bag's size: the squares of 1e20 or 1e-20 do not exist in float32.
    size = near.detach().abs().sum((1, 2))
    size = torch.where(size > 0, size, 1.0)
    apart = (near - offset.unsqueeze(1)) / size[:, None, None]
    return offset, size * safe_sqrt((portion * apart.square().sum(2)).sum(1))


def soften(logits: Tensor, tau: Tensor, valid: Tensor | None) -> Tensor:
    """alpha = softmax(u), u = (z - max z) / tau, over the valid elements: (bags, elements); uniform where tau = 0.

    Finite for every tau >= 0; zero in a bag without a valid element.
    """
    if logits.shape[1] == 0:
        return logits
    tau, hidden = tau.unsqueeze(1), None if valid is None else ~valid
    lowest = torch.finfo(logits.dtype).min
    logits = logits if hidden is None else logits.masked_fill(hidden, lowest)
    # exp(-1e4) is 0 in every format: limiting the gap changes no weight and keeps gap / tau^2 finite in the gradient.
    gap = torch.maximum(logits - logits.amax(1, keepdim=True), -1e4 * tau)
    u = gap / torch.where(tau > COLD, tau, torch.inf)
    if hidden is None:
        return torch.softmax(u, 1)
    # The lowest finite number, not -inf: a row of -inf would be NaN. The second fill empties such a row.
    return torch.softmax(u.masked_fill(hidden, lowest), 1).masked_fill(hidden, 0.0)
