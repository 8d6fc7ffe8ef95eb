"""Attention pooling in one autograd function: scorer, mean, dispersion, temperature, softmax and weighted sum.

Textbook code writes a tensor of the size of ``h`` for each of these steps, and another for each gradient. Here the
batch is walked in tiles that stay in the cache: the only large tensor ever written is the gradient of ``h`` itself.
The same formulas as plain differentiable operations (:func:`_plain`) serve where a graph is traced (compile,
export) or differentiated twice, and are what the tests compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.errors import InputError
from excora.functional import (
    at_least_float32,
    blank_padding,
    check_bags,
    element_count,
    full_precision,
    masked_mean,
    masked_softmax,
    safe_sqrt,
    squared_deviations,
)
from excora.ragged import Block, Ragged
from excora.tiles import Law, Plan, backward_block, both, forward_block, scaled_logits


class Attended(NamedTuple):
    """What attention over bags yields; per-element tensors have the layout of the input, padded or flat."""

    attended: Tensor  #: sum_i alpha_i h_i, (bags, dim)
    mean: Tensor  #: mu, (bags, dim)
    weights: Tensor  #: alpha, one per element
    logits: Tensor  #: z, one per element
    temperature: Tensor  #: tau, (bags,)
    dispersion: Tensor  #: sigma, (bags,)
    radius: Tensor  #: R, (bags,), for reading only: it carries no gradient


def attend(
    h: Tensor | Ragged,
    scores: tuple[Tensor, ...],
    law: Law,
    parameters: tuple[Tensor, ...],
    *,
    mask: Tensor | None = None,
    keep: Tensor | None = None,
    divisor: float = 1.0,
) -> Attended:
    """Attend over each bag with alpha = softmax(z / tau), tau = law(sigma / divisor, *parameters).

    ``scores`` is ``(logits,)``, one per element, or ``(weight, bias)`` of a linear scorer z = h.weight + bias, which is
    then fused. ``keep`` (like the logits, boolean) drops elements from the softmax but not from mean and dispersion.
    """
    fused_scorer = len(scores) == 2
    if isinstance(h, Ragged):
        flat, shape, bags, blocks = h.values, h.values.shape[:1], len(h), list(h.blocks())
    else:
        check_bags(h, mask)
        if torch.compiler.is_compiling():
            with full_precision(h.device):
                return _plain(h, scores, law, parameters, mask, keep, divisor)
        if mask is not None and not _surely_finite(h):
            h = blank_padding(h, mask)
        flat, shape, bags = h.reshape(-1, h.shape[-1]), h.shape[:2], h.shape[0]
        blocks = [Block(slice(None), slice(None), (bags, h.shape[1]), mask)]
    plan = Plan(blocks, bags, None if keep is None else keep.reshape(-1), law, divisor, fused_scorer)
    if not fused_scorer:
        scores = (scores[0].reshape(-1),)
    out = Attended(*_Attend.apply(plan, flat, *scores, *parameters))
    return out._replace(weights=out.weights.view(shape), logits=out.logits.view(shape))


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
    out = attend(h, (logits,), _given, (tau,), mask=mask)
    return extrapolate(out, torch.as_tensor(gamma, device=h.device)).to(h.dtype), out.weights


def extrapolate(out: Attended, gamma: Tensor) -> Tensor:
    """The residual, scaled: mu + gamma (a - mu), written so that gamma = 1 gives the attended value to the last bit."""
    gamma = gamma.unsqueeze(-1) if gamma.dim() else gamma
    return out.attended + (gamma - 1.0) * (out.attended - out.mean)


def _surely_finite(h: Tensor) -> bool:
    """Whether no NaN stands anywhere, padding included: one pass, and none where asking would stall the device."""
    return h.device.type == "cpu" and bool(h.detach().sum(dtype=torch.promote_types(h.dtype, torch.float32)).isfinite())


def _given(spread: Tensor, temperature: Tensor) -> Tensor:  # noqa: ARG001  (a law takes the spread first)
    return temperature


def _plain(
    h: Tensor,
    scores: tuple[Tensor, ...],
    law: Law,
    parameters: tuple[Tensor, ...],
    mask: Tensor | None,
    keep: Tensor | None,
    divisor: float,
) -> Attended:
    """The formulas, a line each, in plain differentiable operations on a padded batch."""
    h = blank_padding(at_least_float32(h), mask)
    scores = tuple(at_least_float32(score) for score in scores)
    logits = h @ scores[0] + scores[1] if len(scores) == 2 else scores[0]
    deviations = squared_deviations(h, mask)  # ||h_i - mu||^2
    sigma = safe_sqrt(deviations.sum(1) / element_count(h, mask, h.shape[1]).squeeze(1))
    tau = law(sigma / divisor, *parameters)
    valid = both(mask, keep)
    weights = masked_softmax(scaled_logits(logits, tau, valid), valid)
    attended = torch.bmm(weights.unsqueeze(1), h).squeeze(1)
    farthest = deviations.detach().amax(1) if h.shape[1] else torch.zeros_like(sigma)
    return Attended(attended, masked_mean(h, mask), weights, logits, tau, sigma, farthest.sqrt())


class _Attend(torch.autograd.Function):
    """Tile by tile, forward and backward; saves nothing of the size of ``h`` but ``h``."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        scores, parameters = plan.split(rest)
        dtype = torch.promote_types(flat.dtype, torch.float32)
        out = Attended(
            *(flat.new_empty((plan.bags, flat.shape[1]), dtype=dtype) for _ in range(2)),
            *(flat.new_empty(flat.shape[:1], dtype=dtype) for _ in range(2)),
            *(flat.new_empty((plan.bags,), dtype=dtype) for _ in range(3)),
        )
        offset = torch.empty_like(out.mean)
        with full_precision(flat.device):
            scores = tuple(score.to(dtype) for score in scores)
            for block in plan.blocks:
                offset[block.bags] = forward_block(plan, block, flat, scores, parameters, out)
        ctx.plan = plan
        ctx.save_for_backward(flat, offset, out.weights, out.logits, out.temperature, out.dispersion, *rest)
        ctx.mark_non_differentiable(out.radius)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        flat, offset, weights, logits, tau, sigma, *rest = ctx.saved_tensors
        with full_precision(flat.device):
            if torch.is_grad_enabled():  # somebody will differentiate the gradient: it has to be a graph
                return (None, *_plain_backward(plan, flat, rest, grads))
            saved = (weights, logits, tau, sigma)
            return (None, *_fused_backward(plan, flat, rest, offset, saved, grads, wants_h=ctx.needs_input_grad[1]))


def _fused_backward(
    plan: Plan,
    flat: Tensor,
    rest: Sequence[Tensor],
    offset: Tensor,
    saved: tuple[Tensor, ...],
    grads: tuple[Tensor, ...],
    *,
    wants_h: bool,
) -> list[Tensor | None]:
    scores, parameters = plan.split(rest)
    sigma = saved[3]
    with torch.enable_grad():  # the law is elementwise over bags: one small graph gives both of its derivatives
        spread = sigma.detach().requires_grad_()
        leaves = [parameter.detach().requires_grad_() for parameter in parameters]
        tau = plan.law(spread / plan.divisor, *leaves) + 0.0 * spread  # a law may ignore the spread
        (slope,) = torch.autograd.grad(tau.sum(), spread, retain_graph=True)
    grad_flat = torch.empty_like(flat) if wants_h else None
    grad_logits = torch.empty_like(saved[1])
    grad_tau = torch.empty_like(sigma)
    grad_weight = torch.zeros_like(scores[0], dtype=sigma.dtype) if plan.fused_scorer else None
    for block in plan.blocks:
        out = (grad_flat, grad_logits, grad_tau, grad_weight)
        backward_block(plan, block, flat, scores, saved, offset, slope, grads, out)
    grad_parameters = torch.autograd.grad(tau, leaves, grad_tau) if leaves else ()
    if grad_weight is None:
        grad_scores = [grad_logits.to(scores[0].dtype)]
    else:
        grad_scores = [grad_weight.to(scores[0].dtype), grad_logits.sum().to(scores[1].dtype)]
    return [grad_flat, *grad_scores, *grad_parameters]


def _plain_backward(plan: Plan, flat: Tensor, rest: Sequence[Tensor], grads: tuple[Tensor, ...]) -> list[Tensor | None]:
    """The same gradient through :func:`_plain`, as a graph that can be differentiated again."""
    scores, parameters = plan.split(rest)
    totals: list[Tensor] = []
    for block in plan.blocks:
        keep = None if plan.keep is None else block.load(plan.keep)
        score = scores if plan.fused_scorer else (block.load(scores[0]),)
        out = _plain(block.load(flat), score, plan.law, plan.pick(parameters, block), block.mask, keep, plan.divisor)
        pulls = [
            block.load(grad) if name in ("weights", "logits") else grad[block.bags]
            for name, grad in zip(Attended._fields[:-1], grads, strict=False)
        ]
        if block.mask is not None:  # rows that an index block only borrowed must not be pulled twice
            pulls[2:4] = [pull.masked_fill(~block.mask, 0.0) for pull in pulls[2:4]]
        totals += [(value * pull).sum() for value, pull in zip(out[:-1], pulls, strict=True)]
    inputs = [flat, *rest]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(torch.stack(totals).sum(), wanted, create_graph=True, materialize_grads=True))
    return [next(found) if tensor.requires_grad else None for tensor in inputs]
