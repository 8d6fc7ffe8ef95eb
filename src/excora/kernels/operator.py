"""The compiled form as one operator of torch's: ``torch.compile`` calls it, where it would trace the formulas.

What a compiler makes of the formulas reads ``h`` five times and writes it twice; the loops read it twice. Imported only
where numba is; exported graphs keep the formulas, which need nothing of ours to run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from excora.extrapolation import Law, given_temperature, learned_temperature, linear_temperature
from excora.kernels import compiled
from excora.kernels.function import Plan, attended, gradients
from excora.ragged import Block

LAWS: dict[str, Law] = {law.__name__: law for law in (given_temperature, learned_temperature, linear_temperature)}


def _plan(h: Tensor, mask: Tensor | None, keep: Tensor | None, law: str, divisor: float, scale: float | None) -> Plan:
    bags, elements, _ = h.shape
    block = Block(slice(0, bags), slice(0, bags * elements), (bags, elements), mask)
    return Plan([block], bags, None if keep is None else keep.reshape(-1), LAWS.get(law), divisor, scale)


# Defined by hand: the decorator for it (custom_op) looks at every argument once more, at every call.
torch.library.define(
    "excora::attend",
    "(Tensor h, Tensor[] inputs, Tensor? mask, Tensor? keep, str law, float divisor, float? scale) -> Tensor[]",
)
torch.library.define(
    "excora::attend_backward",
    "(Tensor[] grads, bool[] arrived, Tensor h, Tensor[] inputs, Tensor[] saved, Tensor? mask, str law, "
    "float divisor, float? scale, bool wants_h) -> Tensor[]",
)
attend_operator, attend_backward = torch.ops.excora.attend.default, torch.ops.excora.attend_backward.default


@torch.library.impl("excora::attend", "CPU")
def _attend(
    h: Tensor,
    inputs: list[Tensor],
    mask: Tensor | None,
    keep: Tensor | None,
    law: str,
    divisor: float,
    scale: float | None,
) -> list[Tensor]:
    """What :func:`excora.kernels.function.attended` gives: ``inputs`` are the scorer's and the law's tensors."""
    plan = _plan(h, mask, keep, law, divisor, scale)
    out, _, _ = attended(plan, h.reshape(-1, h.shape[-1]).contiguous(), *inputs)
    return out if scale is not None else [*out[:3], out[3].clone(), *out[4:]]  # logits that are given: no alias


@torch.library.impl("excora::attend_backward", "CPU")
def _attend_backward(
    grads: list[Tensor],
    arrived: list[bool],
    h: Tensor,
    inputs: list[Tensor],
    saved: list[Tensor],
    mask: Tensor | None,
    law: str,
    divisor: float,
    scale: float | None,
    wants_h: bool,
) -> list[Tensor]:
    """The gradients of h (empty unless wanted) and of ``inputs``; ``grads`` are those that have arrived."""
    given = iter(grads)
    own = [next(given) if there else None for there in arrived]
    flat, plan = h.reshape(-1, h.shape[-1]).contiguous(), _plan(h, mask, None, law, divisor, scale)
    d_flat, *rest = gradients(plan, compiled, flat, inputs, saved, [False], own, wants_h)
    d_h = h.new_empty(0) if d_flat is None else d_flat.view(h.shape)
    return [d_h, *(d for d in rest if d is not None)]


@torch.library.register_fake("excora::attend")
def _shapes(h: Tensor, *_: Any) -> list[Tensor]:
    bags, elements, dim = h.shape
    shapes = [(bags, dim)] * 2 + [(bags * elements,)] * 2 + [(bags,)] * 2 + [(bags, dim)] * 2
    return [h.new_empty(shape) for shape in shapes]


@torch.library.register_fake("excora::attend_backward")
def _backward_shapes(*given: Any) -> list[Tensor]:
    _, _, h, inputs, *_, wants_h = given
    return [h.new_empty(h.shape if wants_h else 0), *(x.new_empty(x.shape) for x in inputs)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    h, tensors, mask, _, *ctx.plan = inputs
    ctx.count, ctx.masked = len(tensors), mask is not None
    ctx.save_for_backward(h, *tensors, *output, *([mask] if mask is not None else []))


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    h, *rest = ctx.saved_tensors
    inputs, saved, mask = rest[: ctx.count], rest[ctx.count : ctx.count + 8], rest[-1] if ctx.masked else None
    arrived = [g is not None for g in grads[:6]]
    given, wants_h = [g for g in grads[:6] if g is not None], ctx.needs_input_grad[0]
    d_h, *d_inputs = attend_backward(given, arrived, h, inputs, saved, mask, *ctx.plan, wants_h)
    return d_h if wants_h else None, d_inputs, None, None, None, None, None


torch.library.register_autograd("excora::attend", _backward, setup_context=_setup)
