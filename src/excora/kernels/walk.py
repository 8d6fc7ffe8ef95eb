"""Attention over bags that are no padded batch in float32 or better: a walk in boxes, each as :mod:`.function` has it.

Ragged batches, of which bags of like length make a box; and batches in half precision, widened a box at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.functional import at_least_float32, full_precision
from excora.kernels import closed_form, function
from excora.kernels.closed_form import Gradients, Result
from excora.kernels.formulas import Attended, Box, plain, residual
from excora.kernels.function import Plan, are_batched, gradients_with_graph, is_recorded, needs_plain
from excora.ragged import Block, Ragged

#: Which fields of Attended have one entry an element; the others have one a bag, as have value and gamma.
PER_ELEMENT = (False, False, True, True, False, False, False, False)


class Walk(NamedTuple):
    """What carries no gradient: the plan, its masks flat, and the way through the batch."""

    plan: Plan
    blocks: list[Block]
    bags: int

    def box(self, block: Block, flat: Tensor, rest: Sequence[Tensor]) -> Box:
        """One block of the batch, in float32 or better."""
        h = at_least_float32(block.load(flat))
        keep = None if self.plan.keep is None else block.load(self.plan.keep)
        box = self.plan._replace(real=block.mask, keep=keep).box(h, tuple(rest))
        scores = box.scores if box.weight is not None else (block.load(box.scores[0]),)
        box.scores, box.gain = (tuple(x.to(h.dtype) for x in part) for part in (scores, box.gain))
        box.parameters = tuple(x if x.numel() == 1 else x[block.bags] for x in box.parameters)
        return box


def walked(plan: Plan, h: Tensor | Ragged, rest: tuple[Tensor, ...]) -> Sequence[Tensor]:
    """What :class:`excora.kernels.function.Attend` gives, its fields of one entry an element in the layout of ``h``."""
    keep = None if plan.keep is None else plan.keep.reshape(-1)
    if isinstance(h, Ragged):
        walk, flat = Walk(plan._replace(keep=keep), list(h.blocks()), len(h)), h.values
    else:
        walk = Walk(plan._replace(real=None, keep=keep), _blocks(h, plan.real), len(h))
        flat = h.reshape(-1, h.shape[-1])
    if plan.scale is None:
        rest = (rest[0].reshape(-1), *rest[1:])
    inputs = (flat.contiguous(), *rest)
    fields: Sequence[Tensor]
    if needs_plain(*inputs):
        with full_precision(flat.device):
            fields = _plain(walk, *inputs)
    else:
        fields = AttendWalk.apply(walk, *inputs) if is_recorded(*inputs) else _attended(walk, *inputs)[0]
    if isinstance(h, Ragged):
        return fields
    pairs = zip(fields, PER_ELEMENT, strict=False)
    return [x.view(h.shape[:2]) if each else x for x, each in pairs]


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


def _attended(walk: Walk, flat: Tensor, *rest: Tensor) -> tuple[list[Tensor], list[Tensor], list[bool]]:
    """The fields, and value and gamma; what the backward asks for besides; which blocks were blanked."""
    by = function.fastest(torch.promote_types(flat.dtype, torch.float32), flat.device, walk.plan.law)
    results = [by.forward(walk.box(block, flat, rest)) for block in walk.blocks]
    fields = _joined(walk, len(flat), [(*one.found, *one.beyond) for one in results], PER_ELEMENT)
    kept = _joined(walk, len(flat), [one.kept for one in results], (False,) * 2)
    return fields, kept, [one.blanked for one in results]


def _joined(
    walk: Walk, elements: int, parts: Sequence[Sequence[Tensor]], per_element: tuple[bool, ...]
) -> list[Tensor]:
    """Tensors of the whole batch from those of its blocks, flat."""
    out = []
    for each, values in zip(per_element, zip(*parts, strict=True), strict=False):
        target = values[0].new_empty((elements,) if each else (walk.bags, *values[0].shape[1:]))
        for block, value in zip(walk.blocks, values, strict=True):
            if each:
                block.store(target, value)
            else:
                target[block.bags] = value
        out.append(target)
    return out


class AttendWalk(torch.autograd.Function):
    """(walk, flat elements, scorer's tensors, law's parameters, gain's weights) to what :func:`walked` gives, flat."""

    @staticmethod
    def forward(ctx: Any, walk: Walk, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """The formulas."""
        fields, kept, ctx.blanked = _attended(walk, flat, *rest)
        ctx.walk, ctx.count = walk, 1 + len(rest)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(flat, *rest, *fields[:6], *kept)
        return tuple(fields)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The closed form, or the gradient of the plain formulas where it will be differentiated again."""
        saved, walk = ctx.saved_tensors, ctx.walk
        inputs, found = saved[: ctx.count], saved[ctx.count :]
        if torch.is_grad_enabled() or are_batched(grads):
            with full_precision(inputs[0].device), torch.enable_grad():
                return (None, *gradients_with_graph(partial(_plain, walk), inputs, grads))
        return (None, *_gradients(walk, inputs, found, ctx.blanked, grads, ctx.needs_input_grad[1]))


def _gradients(
    walk: Walk,
    inputs: Sequence[Tensor],
    saved: Sequence[Tensor],
    blanked: Sequence[bool],
    grads: Sequence[Tensor | None],
    wants_h: bool,
) -> list[Tensor | None]:
    flat, *rest = inputs
    by = function.fastest(torch.promote_types(flat.dtype, torch.float32), flat.device, walk.plan.law)
    d_flat = torch.empty_like(flat) if wants_h else None
    found = []
    for block, blank in zip(walk.blocks, blanked, strict=True):
        box = walk.box(block, flat, rest)
        box = box.blanked() if blank else box
        fields = [_part(block, x, each) for x, each in zip(saved[:6], PER_ELEMENT, strict=False)]
        kept = tuple(x[block.bags] for x in saved[6:])
        own = [None if g is None else _part(block, g, each) for g, each in zip(grads, PER_ELEMENT, strict=False)]
        direct = d_flat is not None and isinstance(block.rows, slice) and d_flat.dtype == box.h.dtype
        out = None if d_flat is None else block.load(d_flat) if direct else torch.empty_like(box.h)
        found.append(by.backward(box, Result(Attended(*fields), kept), own, out))
        if d_flat is not None and out is not None and not direct:
            block.store(d_flat, out)
    return [d_flat, *_summed(walk, rest, saved[3], found)]


def _part(block: Block, x: Tensor, each: bool) -> Tensor:
    """The block's part of a field; rows that an index only borrows from other bags carry nothing."""
    if not each:
        return x[block.bags]
    own = block.load(x)
    return own if block.mask is None or isinstance(block.rows, slice) else own.masked_fill(~block.mask, 0.0)


def _summed(walk: Walk, rest: Sequence[Tensor], logits: Tensor, found: Sequence[Gradients]) -> list[Tensor]:
    """The gradients of all blocks, for the scorer, the law and the gain."""
    given, scored = list[Tensor](), 2
    if walk.plan.scale is None:
        d_logits, scored = torch.empty_like(logits), 0
        for block, part in zip(walk.blocks, found, strict=True):
            block.store(d_logits, part.logits)
        given, rest = [d_logits.to(rest[0].dtype)], rest[1:]
    law = range(scored, len(rest) - (0 if walk.plan.form is None else 4))
    totals = [torch.zeros_like(at_least_float32(x)) for x in rest]
    for block, part in zip(walk.blocks, found, strict=True):
        for place, (total, own) in enumerate(zip(totals, part.others, strict=True)):
            total[block.bags if place in law and total.numel() > 1 else ...] += own
    return [*given, *(total.to(x.dtype) for total, x in zip(totals, rest, strict=True))]


def _plain(walk: Walk, flat: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """What :class:`AttendWalk` gives with a gradient, in plain differentiable operations."""
    found, bags, rows = [], [], []
    for block in walk.blocks:
        box = walk.box(block, flat, rest)
        one = plain(box)
        own = slice(None) if isinstance(block.rows, slice) else block.mask
        one = one._replace(weights=one.weights[own].reshape(-1), logits=one.logits[own].reshape(-1))
        found.append((*one, *residual(box, one)))
        bags.append(torch.arange(walk.bags, device=flat.device)[block.bags])
        rows.append(torch.arange(len(flat), device=flat.device)[block.rows][own].reshape(-1))
    places = [torch.cat(index).argsort() for index in (bags, rows)]
    fields = (torch.cat(parts) for parts in zip(*found, strict=True))
    return tuple(field[places[each]] for field, each in zip(fields, PER_ELEMENT, strict=False))
