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

LAWS: dict[str, Law] = {law.__name__: law for law in (given_temperature, learned_temperature, linear_temperature)}


def _box(
    h: Tensor, inputs: list[Tensor], mask: Tensor | None, keep: Tensor | None, law: str, divisor: float,
    scale: float | None,
) -> Box:  # fmt: skip
    """``inputs`` are the scorer's tensors, one of logits where ``scale`` is None, and the law's."""
    count = 1 if scale is None else 2
    return Box(h, mask, keep, tuple(inputs[:count]), LAWS.get(law), tuple(inputs[count:]), divisor, scale or 1.0)


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
    """The fields of Attended, then shift and offset."""
    (a, mean, weights, logits, tau, sigma), shift, offset, _ = compiled.forward(
        _box(h, inputs, mask, keep, law, divisor, scale)
    )
    logits = logits.clone() if scale is None else logits  # given ones: no alias
    return [a, mean, weights, logits, tau, sigma, shift, offset]


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
    box = _box(h, inputs, mask, None, law, divisor, scale)
    d_h = torch.empty(h.shape if wants_h else 0)
    result = Result(Attended(*saved[:6]), saved[6], saved[7])
    d_z, d_weight, d_law = compiled.backward(box, result, own, d_h if wants_h else None)
    return [d_h, *([d_z] if d_weight is None else [d_weight, d_z.sum().view_as(inputs[1])]), *d_law]


@torch.library.register_fake("excora::attend")
def _shapes(h: Tensor, *_: Any) -> list[Tensor]:
    bags, elements, dim = h.shape
    shapes = [(bags, dim)] * 2 + [(bags, elements)] * 2 + [(bags,)] * 2 + [(bags, dim)] * 2
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
