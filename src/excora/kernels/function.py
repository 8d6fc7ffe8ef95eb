"""The autograd function under the pools, of a padded batch: it lets the fastest module that can do the work.

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
from excora.functional import full_precision
from excora.kernels import closed_form
from excora.kernels.closed_form import Result
from excora.kernels.formulas import Attended, Box, Form, plain, residual


class Plan(NamedTuple):
    """What carries no gradient: the masks, the law, the scorer's kind, the gain's form."""

    real: Tensor | None
    keep: Tensor | None  # False = dropped from the softmax (attention dropout), yet in the mean
    law: Law | None
    divisor: float
    scale: float | None  # of a linear scorer, given as (weight, bias); None: logits are given
    form: Form | None = None  # of the gain, whose weights then come last; None: there is no residual

    def box(self, h: Tensor, rest: tuple[Tensor, ...]) -> Box:
        """The batch; ``rest`` are the scorer's tensors, the law's parameters and the weights of the gain."""
        scored, last = 1 if self.scale is None else 2, len(rest) - (0 if self.form is None else 4)
        scale = 1.0 if self.scale is None else self.scale
        law = self.law, rest[scored:last], self.divisor
        return Box(h, self.real, self.keep, rest[:scored], *law, scale, self.form, rest[last:])


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


class Attend(torch.autograd.Function):
    """(plan, h, scorer's tensors, law's parameters, gain's weights) to the fields of Attended, value and gamma."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, h: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """The formulas."""
        ctx.plan, ctx.by, ctx.count = plan, fastest(h.dtype, h.device, plan.law), 1 + len(rest)
        found, kept, ctx.blanked, beyond = ctx.by.forward(plan.box(h, rest))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h, *rest, *found, *kept)
        return (*found, *beyond)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The closed form, or the gradient of the plain formulas where it will be differentiated again."""
        saved, plan = ctx.saved_tensors, ctx.plan  # once: a checkpoint hands them out a single time
        inputs, found = saved[: ctx.count], saved[ctx.count :]
        h, *rest = inputs
        if torch.is_grad_enabled() or are_batched(grads):
            with full_precision(h.device), torch.enable_grad():
                return (None, *gradients_with_graph(partial(plainly, plan), inputs, grads))
        box = plan.box(h, tuple(rest))
        d_h = torch.empty_like(h) if ctx.needs_input_grad[1] else None
        result = Result(Attended(*found[:6]), found[6:])
        d_logits, others = ctx.by.backward(box.blanked() if ctx.blanked else box, result, grads, d_h)
        return (None, d_h, *((d_logits,) if plan.scale is None else ()), *others)


def plainly(plan: Plan, h: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    """What :class:`Attend` gives with a gradient, in plain differentiable operations."""
    box = plan.box(h, rest)
    found = plain(box)
    return (*found, *residual(box, found))


def are_batched(grads: Sequence[Tensor | None]) -> bool:
    """Whether several gradients arrive at once, as those of a vectorised Jacobian."""
    is_legacy, is_batched = torch._C._functorch.is_legacy_batchedtensor, torch._C._functorch.is_batchedtensor
    return any(g is not None and (is_legacy(g) or is_batched(g)) for g in grads)


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
