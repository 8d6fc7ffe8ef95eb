"""The scaled residual under the pools, v = mu + gamma (a - mu) with gamma = gain(mu): one call, and one gradient.

In torch operations this is a dozen small steps, and their gradients two dozen more: microseconds each, and for some of
them torch wakes all its threads and waits for them, milliseconds where another process has one of the cores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from excora.extrapolation import Extrapolation, Gain, extrapolate, mlp_gain
from excora.functional import check_bags
from excora.kernels import closed_form
from excora.kernels.attend import attend
from excora.kernels.formulas import Attended, Box
from excora.kernels.function import fastest, gradients_with_graph, is_bare, is_recorded, needs_plain
from excora.ragged import Ragged


def attend_beyond(
    extrapolation: Extrapolation,
    h: Tensor | Ragged,
    scores: tuple[Tensor, ...],
    *,
    mask: Tensor | None,
    keep: Tensor | None,
    scale: float,
) -> tuple[Attended, Tensor, Tensor]:
    """:func:`attend`, then :func:`residual`: all that both give; in one loop where no graph is recorded."""
    law, parameters = extrapolation.law(h.values if isinstance(h, Ragged) else h)
    gain, divisor = extrapolation.gain, extrapolation.divisor
    if isinstance(h, Tensor) and type(gain) is Gain and is_bare(gain):
        inputs, weights = (h, *scores, *parameters), gain.weights()
        if (
            not needs_plain(*inputs, *weights)
            and not is_recorded(*inputs, *weights)
            and all(x.dtype == torch.float32 for x in (*inputs, *weights))
            and weights[0].shape[1] == h.shape[-1]
        ):
            check_bags(h, mask)
            by = fastest(h.dtype, h.device, law)
            return by.forward_with_residual(Box(h, mask, keep, scores, law, parameters, divisor, scale), gain, weights)
    found = attend(h, scores, law, parameters, mask=mask, keep=keep, divisor=divisor, scale=scale)
    return found, *residual(extrapolation, found.mean, found.attended)


def residual(extrapolation: Extrapolation, mean: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """The value v, (bags, dim), and gamma, (bags,), from mean and attended value, (bags, dim) each."""
    gain = extrapolation.gain
    if type(gain) is Gain and is_bare(gain):
        inputs = (mean, attended, *gain.weights())
        if not needs_plain(*inputs) and _is_compiled(*inputs):
            by = Residual.apply if is_recorded(*inputs) else forward
            value, gamma, *_ = by((gain.form, gain.cap), *inputs)
            return value, gamma
    gamma = extrapolation.gamma(mean)
    return extrapolate(mean, attended, gamma.unsqueeze(1)), gamma


def _is_compiled(mean: Tensor, attended: Tensor, first: Tensor, *rest: Tensor) -> bool:
    fits = first.shape[1] == mean.shape[1] and all(x.dtype == torch.float32 for x in (attended, first, *rest))
    return fits and fastest(mean.dtype, mean.device, None) is not closed_form


def plain(form: tuple[str, float], mean: Tensor, attended: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """In plain operations."""
    gamma = mlp_gain(mean, *weights, form=form[0], cap=form[1])
    return extrapolate(mean, attended, gamma.unsqueeze(1)), gamma


def forward(form: tuple[str, float], *inputs: Tensor) -> tuple[Tensor, ...]:
    """Value and gamma, the hidden units and the slope of the gain: what a backward asks for."""
    from excora.kernels import loops_residual  # imports numba

    call = _call(form, *inputs)
    bags, width = call["bags"], call["width"]
    out = {
        "value": torch.empty_like(inputs[0]),
        "gamma": torch.empty(bags),
        "hidden": torch.empty(bags, width),
        "slope": torch.empty(bags),
    }
    loops_residual.forward(bags, 0, **call, **out)
    return tuple(out.values())


def backward(
    form: tuple[str, float], inputs: tuple[Tensor, ...], found: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]
) -> list[Tensor]:
    """The gradients of the inputs, from those of value and gamma."""
    from excora.kernels import loops_residual

    call = _call(form, *inputs)
    names = ("d_mean", "d_attended", "d_first", "d_first_bias", "d_last", "d_last_bias")
    out = {name: torch.zeros_like(x) for name, x in zip(names, inputs, strict=True)}
    g_value, g_gamma = (None if g is None else g.contiguous() for g in grads)
    given = dict(zip(("gamma", "hidden", "slope"), found, strict=True))
    loops_residual.backward(call["bags"], 0, **call, **given, g_value=g_value, g_gamma=g_gamma, **out)
    return list(out.values())


def _call(form: tuple[str, float], *inputs: Tensor) -> dict[str, Any]:
    """What both loops are given."""
    mean, attended, first, first_bias, last, last_bias = (x.contiguous() for x in inputs)
    return {
        "mean": mean, "attended": attended,
        "first": first, "first_bias": first_bias, "last": last, "last_bias": last_bias,
        "bags": mean.shape[0], "dim": mean.shape[1], "width": first.shape[0],
        "free": form[0] == "free", "cap": form[1],
    }  # fmt: skip


class Residual(torch.autograd.Function):
    """(form, mean, attended value, weights of the gain) to what :func:`forward` gives, with its gradient."""

    @staticmethod
    def forward(ctx: Any, form: tuple[str, float], *inputs: Tensor) -> tuple[Tensor, ...]:
        """Value and gamma."""
        value, *rest = forward(form, *inputs)
        ctx.form = form
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *rest)
        ctx.mark_non_differentiable(*rest[1:])
        return value, *rest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The closed form, or the gradient of the plain formulas where it will be differentiated again."""
        saved = ctx.saved_tensors
        inputs, found = saved[:6], saved[6:]
        if torch.is_grad_enabled():
            return None, *gradients_with_graph(lambda *x: plain(ctx.form, *x), inputs, grads[:2])
        return None, *backward(ctx.form, inputs, found, grads[:2])
