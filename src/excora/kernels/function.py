"""The autograd function under the pools: the formulas on fast passes, and the closed form of their gradient.

It saves nothing of the size of ``h`` but ``h``, and writes nothing of that size but its gradient. ``g_x`` is the
gradient that arrives for x, ``d_x`` the one that is handed on.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.extrapolation import Law, sharpness
from excora.functional import at_least_float32, blank_padding, element_count, full_precision
from excora.kernels import passes
from excora.kernels.formulas import Attended, both, formulas, plain, scaled_logits
from excora.ragged import Block


class Plan(NamedTuple):
    """What carries no gradient: how to walk the batch, who may be attended, the law, the scorer's kind."""

    blocks: list[Block]
    bags: int
    keep: Tensor | None  # flat; False = dropped from the softmax (attention dropout), yet in the mean
    law: Law | None  # None: tau = 1, and neither mean nor dispersion
    divisor: float
    fused_scorer: bool

    def split(self, rest: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The scorer's tensors and the law's parameters."""
        cut = 2 if self.fused_scorer else 1
        return tuple(rest[:cut]), tuple(rest[cut:])

    def inputs(self, block: Block, rest: Sequence[Tensor], dtype: torch.dtype) -> tuple[Any, Any, Tensor | None]:
        """Of one block: the scorer's tensors or its logits, the law's parameters, whom the softmax may not weigh."""
        scores, parameters = self.split(rest)
        scores = tuple(x.to(dtype) for x in (scores if self.fused_scorer else (block.load(scores[0]),)))
        # A parameter of the law is a scalar, which holds for all bags, or has one number a bag.
        parameters = tuple(parameter[block.bags] if parameter.dim() else parameter for parameter in parameters)
        return scores, parameters, None if self.keep is None else block.load(self.keep)


def fast_passes(dtype: torch.dtype, device: torch.device) -> ModuleType:
    """The compiled passes where there are any for this format, else those in torch operations."""
    compiled = _compiled() if dtype == torch.float32 and device.type == "cpu" else None
    return passes if compiled is None else compiled


@functools.cache
def _compiled() -> ModuleType | None:
    if os.environ.get("EXCORA_COMPILED", "1") == "0":
        return None
    try:
        return importlib.import_module("excora.kernels.compiled")
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return None


class Attend(torch.autograd.Function):
    """(plan, flat elements, scorer's tensors, law's parameters) to the fields of :class:`Attended`, block by block."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """The formulas."""
        dtype = torch.promote_types(flat.dtype, torch.float32)
        by = fast_passes(dtype, flat.device)
        widths = ((plan.bags, flat.shape[1]), flat.shape[:1], (plan.bags,))
        out = Attended(*(flat.new_empty(widths[k], dtype=dtype) for k in (0, 0, 1, 1, 2, 2)))
        centre = torch.empty_like(out.mean), torch.empty_like(out.mean)
        with full_precision(flat.device):
            blanked = [_forward_block(plan, block, flat, rest, by, out, centre) for block in plan.blocks]
        ctx.plan, ctx.by, ctx.blanked = plan, by, blanked
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(flat, *rest, *centre, *out[2:])
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The closed form, or the gradient of the plain formulas where it will be differentiated again."""
        flat, *rest = ctx.saved_tensors[:-6]
        with full_precision(flat.device):
            if torch.is_grad_enabled():
                return (None, *_backward_with_graph(ctx.plan, [flat, *rest], grads))
            saved = Saved(flat, tuple(rest), *ctx.saved_tensors[-6:], ctx.blanked)
            return (None, *_backward(ctx.plan, ctx.by, saved, grads, wants_h=ctx.needs_input_grad[1]))


def _forward_block(
    plan: Plan, block: Block, flat: Tensor, rest: Sequence[Tensor], by: ModuleType, out: Attended, centre: Any
) -> bool:
    """Fill the block's part of ``out`` and of (shift, offset); returns whether its padding had to be blanked."""
    h = at_least_float32(block.load(flat))
    scores, parameters, keep = plan.inputs(block, rest, h.dtype)
    common = (plan.law, parameters, block.mask, both(block.mask, keep), plan.divisor, by.survey, by.weigh)
    blank = block.mask is not None and h.device.type != "cpu"  # asking would stall the device
    found, *middle = formulas(blank_padding(h, block.mask) if blank else h, scores, *common)
    # The weights of padding are 0, and 0 times NaN or infinity shows.
    if block.mask is not None and not blank and not bool(found.attended.isfinite().all()):
        blank = True
        found, *middle = formulas(blank_padding(h, block.mask), scores, *common)
    targets = (out.attended, out.mean, out.temperature, out.dispersion, *centre)
    for target, value in zip(targets, (*found[:2], *found[4:], *middle), strict=True):
        target[block.bags] = value
    block.store(out.weights, found.weights)
    block.store(out.logits, found.logits)
    return blank


class Saved(NamedTuple):
    """What the forward leaves to the backward."""

    flat: Tensor
    rest: tuple[Tensor, ...]
    shift: Tensor  # a real element of each bag
    offset: Tensor  # mu - shift
    weights: Tensor
    logits: Tensor
    temperature: Tensor
    dispersion: Tensor
    blanked: list[bool]


def _backward(
    plan: Plan, by: ModuleType, saved: Saved, grads: Sequence[Tensor | None], *, wants_h: bool
) -> list[Tensor | None]:
    """The gradients of flat, the scorer's tensors and the law's parameters."""
    scores, parameters = plan.split(saved.rest)
    with torch.enable_grad():  # the law is elementwise over bags: one small graph gives both of its derivatives
        spread = saved.dispersion.detach().requires_grad_()
        leaves = [parameter.detach().requires_grad_() for parameter in parameters]
        tau = 0.0 * spread + (1.0 if plan.law is None else plan.law(spread / plan.divisor, *leaves))  # it may ignore it
        (slope,) = torch.autograd.grad(tau.sum(), spread, retain_graph=True)
    found = Gradients(
        torch.empty_like(saved.flat) if wants_h else None,
        torch.empty_like(saved.logits),
        torch.empty_like(spread),
        torch.zeros_like(scores[0], dtype=spread.dtype) if plan.fused_scorer else None,
    )
    for block, blanked in zip(plan.blocks, saved.blanked, strict=True):
        _backward_block(plan, by, block, blanked, saved, slope, grads, found)
    d_parameters = torch.autograd.grad(tau, leaves, found.tau) if leaves else ()
    if found.weight is None:
        d_scores = [found.logits.to(scores[0].dtype)]
    else:
        d_scores = [found.weight.to(scores[0].dtype), found.logits.sum().to(scores[1].dtype)]
    return [found.flat, *d_scores, *d_parameters]


class Gradients(NamedTuple):
    """Where the blocks' gradients go."""

    flat: Tensor | None
    logits: Tensor
    tau: Tensor
    weight: Tensor | None


def _backward_block(
    plan: Plan,
    by: ModuleType,
    block: Block,
    blanked: bool,
    saved: Saved,
    slope: Tensor,
    grads: Sequence[Tensor | None],
    found: Gradients,
) -> None:
    """One block; ``slope`` is d tau / d sigma. Padding, and rows that an index block only borrows, carry nothing.

    d_alpha = h.g_a + g_alpha;  d_u = alpha (d_alpha - sum alpha d_alpha);  d_z = d_u / tau + g_z;
    d_tau = g_tau - sum d_u u / tau;  d_sigma = d_tau slope + g_sigma;
    d_h = alpha g_a + d_z w + g_mu / n + d_sigma (h - mu) / (n sigma).
    """
    h, mask = at_least_float32(saved.flat[block.rows]).view(*block.shape, -1), block.mask
    h = blank_padding(h, mask) if blanked else h
    scores, _, keep = plan.inputs(block, saved.rest, h.dtype)
    elements = (saved.weights, saved.logits, grads[2], grads[3])
    alpha, logits, g_alpha, g_z = (None if x is None else _blanked(block.load(x), mask) for x in elements)
    bags = (saved.shift, saved.offset, saved.temperature, saved.dispersion, grads[0], grads[1], grads[4], grads[5])
    shift, offset, tau, sigma, g_a, g_mu, g_tau, g_sigma = (None if x is None else x[block.bags] for x in bags)
    d_alpha = _sum(None if g_a is None else by.project(h, shift, g_a, mask), g_alpha, alpha)
    d_u = alpha * (d_alpha - (alpha * d_alpha).sum(1, keepdim=True))
    sharp = sharpness(tau)
    d_tau = _sum(-(d_u * scaled_logits(logits, tau, both(mask, keep))).sum(1) * sharp, g_tau, tau)
    d_z = _sum(d_u * sharp.unsqueeze(1), g_z, alpha)
    found.tau[block.bags] = d_tau
    block.store(found.logits, d_z)
    if found.weight is not None:
        found.weight.add_(by.weigh(h, shift, d_z).sum(0))
    if found.flat is None:
        return
    count = element_count(h, mask, h.shape[1])
    d_sigma = _sum(d_tau * slope[block.bags], g_sigma, tau)
    rate = (d_sigma * sharpness(sigma)).unsqueeze(1) / count  # 0 for a constant bag
    constant = torch.addcmul(torch.zeros_like(offset) if g_mu is None else g_mu / count, rate, offset, value=-1.0)
    g_a = torch.zeros_like(offset) if g_a is None else g_a
    linear = (
        (d_z, scores[0]) if plan.fused_scorer else (torch.zeros_like(d_z), torch.zeros_like(offset[:1, :]).view(-1))
    )
    speed = rate.expand_as(alpha) if mask is None else rate * mask
    direct = isinstance(block.rows, slice) and found.flat.dtype == h.dtype
    target = block.load(found.flat) if direct else torch.empty_like(h)
    by.gradient(h, shift, speed, alpha, g_a, *linear, constant, mask, target)
    if not direct:
        block.store(found.flat, target)


def _blanked(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x.masked_fill(~mask, 0.0)


def _sum(first: Tensor | None, second: Tensor | None, like: Tensor) -> Tensor:
    """What is there of two terms; zeros like ``like`` if neither."""
    if first is None:
        return torch.zeros_like(like) if second is None else second
    return first if second is None else first + second


def plain_blocks(plan: Plan, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """What :class:`Attend` gives, in plain differentiable operations."""
    found, bags, rows = [], [], []
    for block in plan.blocks:
        scores, parameters, keep = plan.inputs(block, rest, torch.promote_types(flat.dtype, torch.float32))
        out = plain(block.load(flat), scores, plan.law, parameters, block.mask, keep, plan.divisor)
        own = slice(None) if isinstance(block.rows, slice) else block.mask
        found.append(out._replace(weights=out.weights[own].reshape(-1), logits=out.logits[own].reshape(-1)))
        bags.append(torch.arange(plan.bags, device=flat.device)[block.bags])
        rows.append(torch.arange(len(flat), device=flat.device)[block.rows][own].reshape(-1))
    places = [torch.cat(index).argsort() for index in (bags, rows)]
    fields = (torch.cat(parts) for parts in zip(*found, strict=True))
    return tuple(
        field[places[name in ("weights", "logits")]] for name, field in zip(Attended._fields, fields, strict=True)
    )


def _backward_with_graph(plan: Plan, inputs: Sequence[Tensor], grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The same gradient through the plain formulas, as a graph that can be differentiated again.

    Differentiated are aliases of the inputs: the inputs themselves may depend on one another (logits on h) and so may
    the gradients that arrive, and neither is to be followed here.
    """
    aliases = [tensor.view_as(tensor) for tensor in inputs]
    outputs = plain_blocks(plan, *aliases)
    pairs = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None and out.requires_grad]
    wanted = [alias for alias in aliases if alias.requires_grad]
    values, pulls = [out for out, _ in pairs], [grad for _, grad in pairs]
    found = iter(
        torch.autograd.grad(values, wanted, pulls, create_graph=True, materialize_grads=True, allow_unused=True)
    )
    return [next(found) if alias.requires_grad else None for alias in aliases]
