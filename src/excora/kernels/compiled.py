"""Attention over a box of bags, compiled by numba: bag by bag, which is in the cache when it is read again.

Optional (``excora[app]``, ``excora[fast]``), for float32 on a CPU: :func:`forward` and :func:`backward` are those of
:mod:`excora.kernels.closed_form`, which has the formulas, and know the residual v = mu + gamma (a - mu) besides: in
torch operations a dozen small steps, with two dozen more for their gradients. Nothing is copied, and padding is never
read. Bags are shared out among torch's own threads where it is built on GNU OpenMP, as on Linux; elsewhere one does
all. Results do not depend on it. Compiled at the first call (some ten seconds) and kept in a cache on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from excora.errors import InputError
from excora.extrapolation import Law, given_temperature, learned_temperature, linear_temperature
from excora.kernels import loops, loops_backward
from excora.kernels.closed_form import Gradients, Result
from excora.kernels.formulas import Attended, Box

_LAWS: dict[Law | None, int] = {
    None: loops.CONSTANT,
    given_temperature: loops.LINEAR,
    linear_temperature: loops.LINEAR,
    learned_temperature: loops.POWER,
}
_ABSENT = (torch.zeros(1), torch.zeros(1))
_SCORER, _LAW = ("weight", "bias"), ("base", "slope")
_GAIN = ("first", "first_bias", "last", "last_bias")
#: Of the backward: at most so many groups of bags, and so many numbers at least in one.
GROUPS, TOGETHER = 64, 1 << 17


def knows(law: Law | None) -> bool:
    """Whether this law is compiled."""
    return law in _LAWS


def kept_width(dim: int, width: int) -> int:
    """Of what a bag keeps for its backward: shift, mu - shift, the gain's units, its slope, gamma."""
    return 2 * dim + width + 2


def forward(box: Box, *, recorded: bool = True) -> Result:
    """As :func:`excora.kernels.closed_form.forward`; ``recorded``: whether a backward will follow."""
    h, (bags, elements, dim) = box.h.contiguous(), box.h.shape
    wide, each = (bags, dim), (bags, elements)
    logits = box.scores[0].contiguous() if box.weight is None else torch.empty(each)
    found = Attended(
        torch.empty(wide), torch.empty(wide), torch.empty(each), logits, torch.empty(bags), torch.empty(bags)
    )
    call = _call(box, h)
    beyond = () if box.form is None else (torch.empty(wide), torch.empty(bags))
    value, gamma = beyond or (None, None)
    kept = torch.empty(bags, call["wide"]) if recorded else None
    loops.forward(
        bags, h.numel(), **call, keep=_whole(box.keep), kept=kept, value=value, gamma=gamma,
        attended=found.attended, mean=found.mean, weights=found.weights, logits=logits,
        temperature=found.temperature, dispersion=found.dispersion,
    )  # fmt: skip
    return Result(found, () if kept is None else (kept,), beyond=beyond)


def backward(box: Box, result: Result, grads: Sequence[Tensor | None], out: Tensor | None) -> Gradients:
    """As :func:`excora.kernels.closed_form.backward`; ``grads`` may also have those of value and gamma."""
    h, (bags, elements, dim) = box.h.contiguous(), box.h.shape
    call, found = _call(box, h), result.found
    size = max(-(-bags // GROUPS), TOGETHER // max(elements * dim, 1), 1)
    groups = max(-(-bags // size), 1)
    g_a, g_mu, g_alpha, g_z, g_tau, g_sigma, g_value, g_gamma = map(_whole, (*grads, None, None)[:8])
    d_z = torch.empty(bags, elements)
    sums = torch.empty(groups, dim + 4 + (2 + dim) * call["width"])
    named = dict.fromkeys((*_SCORER, *_LAW, *_GAIN))
    names = (*(_SCORER if box.weight is not None else ()), *_LAW[: len(box.parameters)], *(_GAIN if box.form else ()))
    given = (*(box.scores if box.weight is not None else ()), *box.parameters, *box.gain)
    others = [torch.empty(x.shape) for x in given]
    named.update(zip(names, others, strict=True))
    loops_backward.backward(
        groups, 2 * h.numel(), **call, groups=groups, size=size, kept=result.kept[0].contiguous(),
        attended=found.attended.contiguous(), mean=found.mean.contiguous(),
        weights=found.weights.contiguous(), logits=found.logits.contiguous(),
        temperature=found.temperature.contiguous(), dispersion=found.dispersion.contiguous(),
        g_a=g_a, g_mu=g_mu, g_alpha=g_alpha, g_z=g_z, g_tau=g_tau, g_sigma=g_sigma, g_value=g_value, g_gamma=g_gamma,
        d_z=d_z, d_h=out, sums=sums, **{f"d_{name}": x for name, x in named.items()},
    )  # fmt: skip
    return Gradients(d_z, tuple(d if d.dtype == x.dtype else d.to(x.dtype) for d, x in zip(others, given, strict=True)))


def _call(box: Box, h: Tensor) -> dict[str, Any]:
    """What both loops are given."""
    bags, elements, dim = h.shape
    linear = box.weight is not None
    if linear and box.scores[0].shape != (dim,):
        raise InputError(f"the scorer has {box.scores[0].numel()} weights for elements of width {dim}")
    weight, bias = (_whole(x) for x in box.scores) if linear else (None, None)
    base, slope = (x.float().contiguous() for x in (*box.parameters, *_ABSENT)[:2])
    first, first_bias, last, last_bias = (_whole(x) for x in box.gain) if box.form else (None,) * 4
    width = 0 if first is None else len(first)
    if first is not None and first.shape != (width, dim):
        raise InputError(f"the gain is made for elements of width {first.shape[1]}, got {dim}")
    form, cap = box.form or ("", 0.0)
    return {
        "bags": bags, "elements": elements, "dim": dim, "h": h, "real": _whole(box.real),
        "weight": weight, "bias": bias, "scale": box.scale,
        "law": _LAWS[box.law], "divisor": box.divisor,
        "base": base, "bases": base.numel(), "slope": slope, "slopes": slope.numel(),
        "first": first, "first_bias": first_bias, "last": last, "last_bias": last_bias,
        "width": width, "free": form == "free", "cap": cap,
        "wide": kept_width(dim, width),
    }  # fmt: skip


def _whole(x: Tensor | None) -> Tensor | None:
    """Row by row in memory, as the loops take it."""
    return None if x is None else x.contiguous()
