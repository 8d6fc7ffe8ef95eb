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
from excora.kernels.closed_form import Result
from excora.kernels.formulas import Attended, Box
from excora.kernels.function import Plan

LAWS: dict[str, Law] = {law.__name__: law for law in (given_temperature, learned_temperature, linear_temperature)}


def _box(
    h: Tensor, inputs: list[Tensor], mask: Tensor | None, keep: Tensor | None, law: str, divisor: float,
    scale: float | None, form: str, cap: float,
) -> Box:  # fmt: skip
    """``inputs`` are the scorer's tensors (logits where ``scale`` is None), the law's, the weights of the gain."""
    plan = Plan(mask, keep, LAWS.get(law), divisor, scale, (form, cap) if form else None)
    return plan.box(h, tuple(inputs))


# Defined by hand: the decorator for it (custom_op) looks at every argument once more, at every call.
torch.library.define(
    "excora::attend",
    "(Tensor h, Tensor[] inputs, Tensor? mask, Tensor? keep, str law, float divisor, float? scale, str form, float cap)"
    " -> Tensor[]",
)
torch.library.define(
    "excora::attend_backward",
    "(Tensor[] grads, bool[] arrived, Tensor h, Tensor[] inputs, Tensor[] saved, Tensor? mask, str law, "
    "float divisor, float? scale, str form, float cap, bool wants_h) -> Tensor[]",
)
attend_operator, attend_backward = torch.ops.excora.attend.default, torch.ops.excora.attend_backward.default


@torch.library.impl("excora::attend", "CPU")
def _attend(*given: Any) -> list[Tensor]:
    """What the backward asks for besides, then the fields of Attended and, with a gain, value and gamma."""
    box = _box(*given)
    found, kept, _, beyond = compiled.forward(box)
    if box.weight is None:
        found = found._replace(logits=found.logits.clone())  # given ones: no alias
    return [*kept, *found, *beyond]


@torch.library.impl("excora::attend_backward", "CPU")
def _attend_backward(
    grads: list[Tensor],
    arrived: list[bool],
    h: Tensor,
    inputs: list[Tensor],
    saved: list[Tensor],
    mask: Tensor | None,
    *rest: Any,
) -> list[Tensor]:
    """The gradients of h (empty unless wanted) and of ``inputs``; ``grads`` are those that have arrived."""
    *plan, wants_h = rest
    given = iter(grads)
    own = [next(given) if there else None for there in arrived]
    box = _box(h, inputs, mask, None, *plan)
    d_h = torch.empty(h.shape if wants_h else 0)
    kept, *fields = saved
    d_z, others = compiled.backward(box, Result(Attended(*fields), (kept,)), own, d_h if wants_h else None)
    return [d_h, *([d_z] if box.weight is None else []), *others]


@torch.library.register_fake("excora::attend")
def _shapes(h: Tensor, inputs: list[Tensor], *rest: Any) -> list[Tensor]:
    (bags, elements, dim), form = h.shape, rest[-2]
    wide, each, one = (bags, dim), (bags, elements), (bags,)
    width = len(inputs[-4]) if form else 0  # how many units the gain has
    shapes = [(bags, compiled.kept_width(dim, width)), wide, wide, each, each, one, one]
    return [h.new_empty(shape) for shape in [*shapes, *([wide, one] if form else [])]]


@torch.library.register_fake("excora::attend_backward")
def _backward_shapes(*given: Any) -> list[Tensor]:
    _, _, h, inputs, *_, wants_h = given
    return [h.new_empty(h.shape if wants_h else 0), *(x.new_empty(x.shape) for x in inputs)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    h, tensors, mask, _, *ctx.plan = inputs
    ctx.count, ctx.masked = len(tensors), mask is not None
    ctx.save_for_backward(h, *tensors, *output[:7], *([mask] if mask is not None else []))


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    h, *rest = ctx.saved_tensors
    inputs, saved, mask = rest[: ctx.count], rest[ctx.count : ctx.count + 7], rest[-1] if ctx.masked else None
    own = grads[1:]
    arrived, given, wants_h = [g is not None for g in own], [g for g in own if g is not None], ctx.needs_input_grad[0]
    d_h, *d_inputs = attend_backward(given, arrived, h, inputs, saved, mask, *ctx.plan, wants_h)
    return d_h if wants_h else None, d_inputs, *([None] * (2 + len(ctx.plan)))


torch.library.register_autograd("excora::attend", _backward, setup_context=_setup)
