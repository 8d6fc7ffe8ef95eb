"""Attention over bags: the calls under every pool, and the function form of the paper's aggregation.

Textbook code writes a tensor of the size of ``h`` for each step and another for each gradient; here one autograd
function (:mod:`excora.kernels.function`) reads ``h`` a few times and writes its gradient. Where a graph is traced,
transformed or differentiated twice the same formulas run as plain operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from excora.errors import InputError
from excora.extrapolation import (
    Extrapolation,
    Gain,
    Law,
    extrapolate,
    given_temperature,
    learned_temperature,
    linear_temperature,
)
from excora.functional import at_least_float32, check_bags, full_precision, is_exporting
from excora.kernels import closed_form, function
from excora.kernels.formulas import Attended
from excora.kernels.function import Attend, Plan, has_operator, is_bare, is_recorded, needs_plain, plainly
from excora.kernels.walk import walked
from excora.ragged import Ragged

#: What the compiled form knows.
COMPILED_LAWS = (None, given_temperature, learned_temperature, linear_temperature)


def attend(
    h: Tensor | Ragged,
    scores: tuple[Tensor, ...],
    law: Law | None,
    parameters: tuple[Tensor, ...],
    *,
    mask: Tensor | None = None,
    keep: Tensor | None = None,
    divisor: float = 1.0,
    scale: float = 1.0,
) -> Attended:
    """Attend over each bag with alpha = softmax(z / tau), tau = law(sigma / divisor, *parameters).

    ``scores`` is ``(logits,)``, one per element, or ``(weight, bias)`` of a linear scorer z = h.weight scale + bias,
    which is then fused. ``keep`` (like the logits, boolean) drops elements from the softmax but not from mean and
    dispersion. No law is plain attention: tau = 1, and neither mean nor dispersion is measured.
    """
    plan = Plan(mask, keep, law, divisor, scale if len(scores) == 2 else None)
    return Attended(*_fields(plan, h, (*scores, *parameters)))


def attend_beyond(
    extrapolation: Extrapolation,
    h: Tensor | Ragged,
    scores: tuple[Tensor, ...],
    *,
    mask: Tensor | None,
    keep: Tensor | None,
    scale: float,
) -> tuple[Attended, Tensor, Tensor]:
    """:func:`attend`, the value v = mu + gamma (a - mu), (bags, dim), and gamma = gain(mu), (bags,).

    All in one loop where the loops know the gain.
    """
    elements = h.values if isinstance(h, Ragged) else h
    law, parameters = extrapolation.law(elements)
    rest, gain, form = (*scores, *parameters), extrapolation.gain, None
    if type(gain) is Gain and is_bare(gain) and _knows_gains(elements, law):
        rest, form = (*rest, *gain.weights()), (gain.form, gain.cap)
    plan = Plan(mask, keep, law, extrapolation.divisor, scale if len(scores) == 2 else None, form)
    fields = _fields(plan, h, rest)
    found = Attended(*fields[:6])
    if form is not None:
        value, gamma = fields[6:]
        return found, value, gamma
    gamma = extrapolation.gamma(found.mean)
    return found, extrapolate(found.mean, found.attended, gamma.unsqueeze(1)), gamma


def _knows_gains(elements: Tensor, law: Law | None) -> bool:
    """Whether it will be plain operations or the loops, which compute the residual too."""
    dtype = torch.promote_types(elements.dtype, torch.float32)
    return needs_plain(elements) or function.fastest(dtype, elements.device, law) is not closed_form


def _fields(plan: Plan, h: Tensor | Ragged, rest: tuple[Tensor, ...]) -> Sequence[Tensor]:
    """The fields of Attended and, with a gain, value and gamma: by the way that may be gone, with a graph or without.

    ``rest`` are the scorer's tensors, the law's parameters and the weights of the gain.
    """
    if isinstance(h, Ragged):
        return walked(plan, h, rest)
    if _calls_operator(h, plan.law):
        return _operator(plan, h, rest)
    if needs_plain(h, *rest):
        with full_precision(h.device):
            return plainly(plan, h, *rest)
    if h.dtype not in (torch.float32, torch.float64) or any(x.dtype != h.dtype for x in rest):
        return walked(plan, h, rest)
    h = h.contiguous()
    if is_recorded(h, *rest):
        return Attend.apply(plan, h, *rest)
    by = function.fastest(h.dtype, h.device, plan.law)
    result = by.forward(plan.box(h, rest), recorded=False)
    return (*result.found, *result.beyond)


def _calls_operator(h: Tensor | Ragged, law: Law | None) -> bool:
    """Whether a graph is compiled, to run here: neither exported nor transformed."""
    if not torch.compiler.is_compiling() or is_exporting() or torch._C._are_functorch_transforms_active():
        return False
    if not isinstance(h, Tensor) or h.dtype != torch.float32 or h.device.type != "cpu":
        return False
    return law in COMPILED_LAWS and has_operator()


def _operator(plan: Plan, h: Tensor, rest: tuple[Tensor, ...]) -> Sequence[Tensor]:
    """By :mod:`excora.kernels.operator`."""
    box = plan.box(h, rest)
    inputs = [*(x.to(h.dtype) for x in box.scores), *box.parameters, *(x.to(h.dtype) for x in box.gain)]
    law, (form, cap) = "" if plan.law is None else plan.law.__name__, plan.form or ("", 0.0)
    found = torch.ops.excora.attend(h, inputs, plan.real, plan.keep, law, plan.divisor, plan.scale, form, cap)
    return found[1:]


def eca_pool(
    h: Tensor, logits: Tensor, gamma: Tensor, temperature: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scaled residual aggregation: v = mu + gamma sum_i alpha_i (h_i - mu), alpha = softmax(z / tau).

    ``h`` (bags, elements, dim), ``logits`` z (bags, elements), ``gamma`` and ``temperature`` tau (bags,) or scalars.
    Returns ``(value, weights)``, v (bags, dim) and alpha (bags, elements), both differentiable. gamma = tau = 1 is
    plain attention. An empty bag gives zeros; tau = 0 gives uniform weights; padding never matters.

    >>> h = torch.tensor([[[0.0], [4.0]]])
    >>> value, weights = eca_pool(h, torch.zeros(1, 2), torch.tensor(3.0), torch.tensor(1.0))
    >>> value, weights
    (tensor([[2.]]), tensor([[0.5000, 0.5000]]))
    """
    check_bags(h, mask)
    if logits.shape != h.shape[:2]:
        raise InputError(f"logits must have the shape {tuple(h.shape[:2])} of h's elements, got {tuple(logits.shape)}")
    tau = at_least_float32(torch.as_tensor(temperature, device=h.device)).expand(h.shape[0])
    out = attend(h, (logits,), given_temperature, (tau,), mask=mask)
    gain = torch.as_tensor(gamma, device=h.device).expand(h.shape[0]).unsqueeze(1)
    return extrapolate(out.mean, out.attended, gain).to(h.dtype), out.weights
