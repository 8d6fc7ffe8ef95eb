"""Attention over bags: the calls under every pool, and the function form of the paper's aggregation.

Textbook code writes a tensor of the size of ``h`` for each step and another for each gradient; here one autograd
function (:mod:`excora.kernels.function`) reads ``h`` a few times and writes its gradient. Where a graph is traced,
transformed or differentiated twice the same formulas run as plain operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from excora.kernels import closed_form
from excora.kernels.formulas import Attended, Box, plain
from excora.kernels.function import (
    BEYOND,
    FIELDS,
    Attend,
    Plan,
    attended,
    fastest,
    has_operator,
    is_bare,
    is_recorded,
    needs_plain,
    plain_blocks,
)
from excora.ragged import Block, Ragged

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
    if isinstance(h, Tensor):
        check_bags(h, mask)
        found = _at_once(Box(h, mask, keep, scores, law, parameters, divisor, scale))
        if found is not None:
            return found
    plan, flat, shape = _walk(h, mask, Plan([], 0, keep, law, divisor, scale if len(scores) == 2 else None))
    return _shaped(_fields(plan, flat, scores, parameters), shape)


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

    All in one autograd function where the loops know the gain, and in one loop where no graph is recorded.
    """
    elements = h.values if isinstance(h, Ragged) else h
    law, parameters = extrapolation.law(elements)
    gain, divisor = extrapolation.gain, extrapolation.divisor
    inputs = (elements, *scores, *parameters)
    weights = _known_gain(gain, law, inputs)
    if weights is None or not isinstance(gain, Gain):
        found = attend(h, scores, law, parameters, mask=mask, keep=keep, divisor=divisor, scale=scale)
        gamma = extrapolation.gamma(found.mean)
        return found, extrapolate(found.mean, found.attended, gamma.unsqueeze(1)), gamma
    if isinstance(h, Tensor):
        check_bags(h, mask)
        if all(x.dtype == torch.float32 for x in inputs) and not is_recorded(*inputs, *weights):
            by = fastest(h.dtype, h.device, law)
            return by.forward_with_residual(Box(h, mask, keep, scores, law, parameters, divisor, scale), gain, weights)
    plan = Plan([], 0, keep, law, divisor, scale if len(scores) == 2 else None, (gain.form, gain.cap))
    plan, flat, shape = _walk(h, mask, plan)
    fields = _fields(plan, flat, scores, (*parameters, *weights))
    value, gamma = fields[BEYOND]
    return _shaped(fields, shape), value, gamma


def _known_gain(gain: Any, law: Law | None, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    """The gain's weights, if the loops know it and may be called."""
    if type(gain) is not Gain or not is_bare(gain):
        return None
    weights, h = gain.weights(), inputs[0]
    if needs_plain(*inputs, *weights) or weights[0].shape[1] != h.shape[-1]:
        return None
    fits = all(x.dtype == torch.float32 for x in weights)
    by = fastest(torch.promote_types(h.dtype, torch.float32), h.device, law)
    return weights if fits and by is not closed_form else None


def _walk(h: Tensor | Ragged, mask: Tensor | None, plan: Plan) -> tuple[Plan, Tensor, Sequence[int]]:
    """The plan with the way through the batch, the elements laid end to end, the shape of what is one an element."""
    keep = None if plan.keep is None else plan.keep.reshape(-1)
    if isinstance(h, Ragged):
        return plan._replace(blocks=list(h.blocks()), bags=len(h), keep=keep), h.values, h.values.shape[:1]
    plan = plan._replace(blocks=_blocks(h, mask), bags=h.shape[0], keep=keep)
    return plan, h.reshape(-1, h.shape[-1]), h.shape[:2]


def _fields(plan: Plan, flat: Tensor, scores: tuple[Tensor, ...], rest: tuple[Tensor, ...]) -> Sequence[Tensor]:
    """What :func:`excora.kernels.function.attended` gives, with a graph where one is recorded."""
    inputs = (flat.contiguous(), *(scores if len(scores) == 2 else (scores[0].reshape(-1),)), *rest)
    if needs_plain(*inputs):
        return plain_blocks(plan, *inputs)
    return Attend.apply(plan, *inputs) if is_recorded(*inputs) else attended(plan, *inputs)[0]


def _at_once(box: Box) -> Attended | None:
    """A padded batch where it needs no walk in blocks: by the operator, by plain operations, without a graph."""
    inputs = (box.h, *box.scores, *box.parameters)
    if _calls_operator(box.h, box.law):
        return _operator(box)
    if needs_plain(*inputs):
        with full_precision(box.h.device):
            return plain(box)
    if is_recorded(*inputs) or any(x.dtype != torch.float32 for x in inputs[: 1 + len(box.scores)]):
        return None
    return fastest(box.h.dtype, box.h.device, box.law).forward_alone(box)


def _shaped(fields: Sequence[Tensor], shape: Sequence[int]) -> Attended:
    a, mean, weights, logits, tau, sigma = fields[FIELDS]
    return Attended(a, mean, weights.view(shape), logits.view(shape), tau, sigma)


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


def _calls_operator(h: Tensor, law: Law | None) -> bool:
    """Whether a graph is compiled, to run here: neither exported nor transformed."""
    if not torch.compiler.is_compiling() or is_exporting() or torch._C._are_functorch_transforms_active():
        return False
    return h.dtype == torch.float32 and h.device.type == "cpu" and law in COMPILED_LAWS and has_operator()


def _operator(box: Box) -> Attended:
    """By :mod:`excora.kernels.operator`."""
    linear, name = box.weight is not None, "" if box.law is None else box.law.__name__
    inputs = [*(x.to(box.h.dtype) for x in box.scores), *box.parameters]
    scale = box.scale if linear else None
    return Attended(*torch.ops.excora.attend(box.h, inputs, box.real, box.keep, name, box.divisor, scale)[:6])


def _blocks(h: Tensor, mask: Tensor | None) -> list[Block]:
    """A padded batch in blocks of bags: one, unless it is in half precision, of which a block at a time is widened."""
    bags, elements, dim = h.shape
    wide = at_least_float32(h[:0]).dtype == h.dtype
    step = max(bags if wide else closed_form.CHUNK // max(elements * dim, 1), 1)
    starts = range(0, max(bags, 1), step)
    masks = [None] * len(starts) if mask is None else mask.split(step)
    return [
        Block(slice(a, a + step), slice(a * elements, (a + step) * elements), (min(step, bags - a), elements), part)
        for a, part in zip(starts, masks, strict=True)
    ]
