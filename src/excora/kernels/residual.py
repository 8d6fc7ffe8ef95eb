"""The scaled residual under the pools, v = mu + gamma (a - mu), gamma = gain(mu): one loop, and one for its gradient.

In torch operations this is a dozen small steps, and their gradients two dozen more: microseconds each, and for some of
them torch wakes all its threads and waits for them, milliseconds where another process has one of the cores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from excora.extrapolation import extrapolate, mlp_gain

#: The form of a gain and its largest gamma.
Form = tuple[str, float]


def plain(form: Form, mean: Tensor, attended: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """In plain operations."""
    gamma = mlp_gain(mean, *weights, form=form[0], cap=form[1])
    return extrapolate(mean, attended, gamma.unsqueeze(1)), gamma


def forward(form: Form, *inputs: Tensor) -> tuple[Tensor, ...]:
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
    form: Form, inputs: tuple[Tensor, ...], found: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]
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


def _call(form: Form, *inputs: Tensor) -> dict[str, Any]:
    """What both loops are given."""
    mean, attended, first, first_bias, last, last_bias = (x.contiguous() for x in inputs)
    return {
        "mean": mean, "attended": attended,
        "first": first, "first_bias": first_bias, "last": last, "last_bias": last_bias,
        "bags": mean.shape[0], "dim": mean.shape[1], "width": first.shape[0],
        "free": form[0] == "free", "cap": form[1],
    }  # fmt: skip
