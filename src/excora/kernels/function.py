"""The autograd function under the pools: it walks a batch in boxes, and lets the fastest module that can do the work.

It saves nothing of the size of ``h`` but ``h``, and writes nothing of that size but its gradient.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from excora.extrapolation import Law
from excora.functional import at_least_float32, full_precision
from excora.kernels import closed_form, residual
from excora.kernels.closed_form import Gradients, Result
from excora.kernels.formulas import Attended, Box, plain
from excora.ragged import Block

#: Which fields of Attended have one entry an element; the others have one a bag.
PER_ELEMENT = (False, False, True, True, False, False)
#: Of what :func:`attended` gives: the fields, what the backward asks for besides, value and gamma.
FIELDS, BESIDES, BEYOND = slice(6), slice(6, 8), slice(8, 10)


class Plan(NamedTuple):
    """What carries no gradient: how to walk the batch, who may be attended, the law, the scorer's kind, the gain's."""

    blocks: list[Block]
    bags: int
    keep: Tensor | None  # flat; False = dropped from the softmax (attention dropout), yet in the mean
    law: Law | None
    divisor: float
    scale: float | None  # of a linear scorer, given as (weight, bias); None: logits are given
    gain: residual.Form | None = None  # of the residual, whose weights then come last; None: there is none

    def parted(self, rest: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The scorer's tensors and the law's parameters; the weights of the gain."""
        return (rest, ()) if self.gain is None else (rest[:-4], rest[-4:])

    def box(self, block: Block, flat: Tensor, rest: Sequence[Tensor]) -> Box:
        """One block of the batch, in float32 or better."""
        h = at_least_float32(block.load(flat))
        keep = None if self.keep is None else block.load(self.keep)
        scores = (block.load(rest[0]),) if self.scale is None else rest[:2]
        scores = tuple(x if x.dtype == h.dtype else x.to(h.dtype) for x in scores)
        parameters = tuple(x if x.numel() == 1 else x[block.bags] for x in rest[len(scores) :])
        return Box(h, block.mask, keep, scores, self.law, parameters, self.divisor, self.scale or 1.0)


def fastest(dtype: torch.dtype, device: torch.device, law: Law | None) -> ModuleType:
    """The compiled module where it is installed and knows format and law, else the one in torch operations."""
    compiled = _compiled() if dtype == torch.float32 and device.type == "cpu" else None
    return compiled if compiled is not None and compiled.knows(law) else closed_form


def is_recorded(*inputs: Tensor) -> bool:
    """Whether a graph is recorded."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in inputs)


def needs_plain(*tensors: Tensor) -> bool:
    """Whether a graph is traced or transformed, which an autograd function of our own would stand in the way of."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    dual = forward_ad._current_level >= 0
    return dual or any(type(t) not in (Tensor, nn.Parameter) or t.is_meta for t in tensors)


def is_bare(module: nn.Module) -> bool:
    """Whether a module does what its class says: neither a hook nor a forward of its own."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return not hooks and "forward" not in module.__dict__  # torch 2.8 does not trace vars()


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


@torch.compiler.assume_constant_result
def has_operator() -> bool:
    """Whether :mod:`excora.kernels.operator` is there, which a graph that is being compiled may call."""
    if _compiled() is None:
        return False
    importlib.import_module("excora.kernels.operator")
    return True


def attended(plan: Plan, flat: Tensor, *rest: Tensor) -> tuple[list[Tensor], ModuleType, Sequence[bool]]:
    """The fields of Attended, shift and offset, without a graph; by which module, and which blocks were blanked.

    With a gain also what :func:`excora.kernels.residual.forward` gives.
    """
    by = fastest(torch.promote_types(flat.dtype, torch.float32), flat.device, plan.law)
    scored, weights = plan.parted(rest)
    with full_precision(flat.device):
        results = [by.forward(plan.box(block, flat, scored)) for block in plan.blocks]
    out = _joined(plan, flat, results)
    if plan.gain is not None:
        out += residual.forward(plan.gain, out[1], out[0], *weights)
    return out, by, [result.blanked for result in results]


class Attend(torch.autograd.Function):
    """(plan, flat elements, scorer's tensors, law's parameters) to what :func:`attended` gives, with its gradient."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """The formulas."""
        out, ctx.by, ctx.blanked = attended(plan, flat, *rest)
        ctx.plan, ctx.count = plan, len(out)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(flat, *rest, *out)
        ctx.mark_non_differentiable(*out[BESIDES], *out[BEYOND.stop :])
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The closed form, or the gradient of the plain formulas where it will be differentiated again."""
        kept, plan = ctx.saved_tensors, ctx.plan  # once: a checkpoint hands them out a single time
        (flat, *rest), saved = kept[: -ctx.count], kept[-ctx.count :]
        own, beyond = list(grads[FIELDS]), grads[BEYOND]
        weights: Sequence[Tensor | None] = (None,) * 4 if plan.gain else ()
        with full_precision(flat.device):
            if torch.is_grad_enabled() or are_batched(grads):
                with torch.enable_grad():
                    return (None, *gradients_with_graph(partial(plain_blocks, plan), [flat, *rest], [*own, *beyond]))
            scored, given = plan.parted(rest)
            if plan.gain is not None and any(g is not None for g in beyond):
                inputs, found = (saved[1], saved[0], *given), saved[BEYOND.start + 1 :]
                d_mean, d_attended, *weights = residual.backward(plan.gain, inputs, found, beyond)
                own[0] = d_attended if own[0] is None else own[0] + d_attended
                own[1] = d_mean if own[1] is None else own[1] + d_mean
            wants_h = ctx.needs_input_grad[1]
            return (None, *gradients(plan, ctx.by, flat, scored, saved[:8], ctx.blanked, own, wants_h), *weights)


def are_batched(grads: Sequence[Tensor | None]) -> bool:
    """Whether several gradients arrive at once, as those of a vectorised Jacobian."""
    is_legacy, is_batched = torch._C._functorch.is_legacy_batchedtensor, torch._C._functorch.is_batchedtensor
    return any(g is not None and (is_legacy(g) or is_batched(g)) for g in grads)


def _joined(plan: Plan, flat: Tensor, results: Sequence[Result]) -> list[Tensor]:
    """The fields of Attended, flat, then shift and offset, of the whole batch."""
    parts = [(*result.found, result.shift, result.offset) for result in results]
    if len(parts) == 1 and isinstance(plan.blocks[0].rows, slice) and isinstance(plan.blocks[0].bags, slice):
        return [x.reshape(-1) if each else x for x, each in zip(parts[0], (*PER_ELEMENT, False, False), strict=True)]
    out = []
    for place, values in enumerate(zip(*parts, strict=True)):
        each = place < 6 and PER_ELEMENT[place]
        target = values[0].new_empty(flat.shape[:1] if each else (plan.bags, *values[0].shape[1:]))
        for block, value in zip(plan.blocks, values, strict=True):
            if each:
                block.store(target, value)
            else:
                target[block.bags] = value
        out.append(target)
    return out


def gradients(
    plan: Plan,
    by: ModuleType,
    flat: Tensor,
    rest: Sequence[Tensor],
    saved: Sequence[Tensor],
    blanked: Sequence[bool],
    grads: Sequence[Tensor | None],
    wants_h: bool,
) -> list[Tensor | None]:
    """The gradients of flat, the scorer's tensors and the law's parameters."""
    d_flat = torch.empty_like(flat) if wants_h else None
    found = []
    for block, blank in zip(plan.blocks, blanked, strict=True):
        box = plan.box(block, flat, rest)
        box = box.blanked() if blank else box
        # The loops step over padding, where the weights are 0: but not where an index block borrows rows of others.
        mask = block.mask if by.READS_PADDING or not isinstance(block.rows, slice) else None
        fields = [_part(block, mask, x, each) for x, each in zip(saved, (*PER_ELEMENT, False, False), strict=True)]
        own = [None if g is None else _part(block, mask, g, each) for g, each in zip(grads, PER_ELEMENT, strict=True)]
        direct = d_flat is not None and isinstance(block.rows, slice) and d_flat.dtype == box.h.dtype
        out = None if d_flat is None else block.load(d_flat) if direct else torch.empty_like(box.h)
        found.append(by.backward(box, Result(Attended(*fields[:6]), fields[6], fields[7]), own, out))
        if d_flat is not None and out is not None and not direct:
            block.store(d_flat, out)
    return [d_flat, *_summed(plan, saved[3], rest, found)]


def _part(block: Block, mask: Tensor | None, x: Tensor, each: bool) -> Tensor:
    """The block's part of a field; where padding is read, it and rows that are only borrowed carry nothing."""
    if not each:
        return x if isinstance(block.bags, slice) and block.shape[0] == len(x) else x[block.bags]
    return block.load(x) if mask is None else block.load(x).masked_fill(~mask, 0.0)


def _summed(plan: Plan, logits: Tensor, rest: Sequence[Tensor], found: Sequence[Gradients]) -> list[Tensor]:
    """The gradients of the scorer's tensors and the law's parameters, of all blocks."""
    d_logits, d_weight, d_parameters = found[0].logits.reshape(-1), found[0].weight, found[0].parameters
    if len(found) > 1 or d_logits.shape != logits.shape or not isinstance(plan.blocks[0].rows, slice):
        d_logits = torch.empty_like(logits)
        totals = [torch.zeros_like(x) for x in rest[1 if plan.scale is None else 2 :]]
        for block, part in zip(plan.blocks, found, strict=True):
            block.store(d_logits, part.logits)
            for total, own in zip(totals, part.parameters, strict=True):
                total[... if total.numel() == 1 else block.bags] += own
        d_parameters = tuple(totals)
        d_weight = None if d_weight is None else torch.stack([f.weight for f in found if f.weight is not None]).sum(0)
    if d_weight is None:
        return [d_logits.to(rest[0].dtype), *d_parameters]
    return [d_weight.to(rest[0].dtype), d_logits.sum().to(rest[1].dtype).view_as(rest[1]), *d_parameters]


def plain_blocks(plan: Plan, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """What :class:`Attend` gives with a gradient, in plain differentiable operations."""
    found, bags, rows = [], [], []
    scored, weights = plan.parted(rest)
    for block in plan.blocks:
        one = plain(plan.box(block, flat, scored))
        own = slice(None) if isinstance(block.rows, slice) else block.mask
        found.append(one._replace(weights=one.weights[own].reshape(-1), logits=one.logits[own].reshape(-1)))
        bags.append(torch.arange(plan.bags, device=flat.device)[block.bags])
        rows.append(torch.arange(len(flat), device=flat.device)[block.rows][own].reshape(-1))
    places = [torch.cat(index).argsort() for index in (bags, rows)]
    fields = (torch.cat(parts) for parts in zip(*found, strict=True))
    out = tuple(field[places[each]] for field, each in zip(fields, PER_ELEMENT, strict=True))
    return out if plan.gain is None else (*out, *residual.plain(plan.gain, out[1], out[0], *weights))


def gradients_with_graph(
    call: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The gradient of ``call``, plain operations, as a graph that can be differentiated again.

    Differentiated are aliases of the inputs: the inputs themselves may depend on one another (logits on h) and so may
    the gradients that arrive, and neither is to be followed here.
    """
    aliases = [tensor.view_as(tensor) for tensor in inputs]
    outputs = call(*aliases)
    pairs = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None and out.requires_grad]
    wanted = [alias for alias in aliases if alias.requires_grad]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in pairs],
            wanted,
            [grad for _, grad in pairs],
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
    )
    return [next(found) if alias.requires_grad else None for alias in aliases]
