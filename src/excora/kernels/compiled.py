"""Attention over a box of bags, compiled by numba: bag by bag, which is in the cache when it is read again.

Optional (``excora[app]``, ``excora[fast]``), for float32 on a CPU: :func:`forward` and :func:`backward` are those of
:mod:`excora.kernels.closed_form`, which has the formulas. Nothing is copied, and padding is never read. Bags are shared
out among torch's own threads where it is built on GNU OpenMP, as on Linux; elsewhere one does all. Results do not
depend on it. Compiled at the first call (some ten seconds) and kept in a cache on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from excora.errors import InputError
from excora.extrapolation import Gain, Law, given_temperature, learned_temperature, linear_temperature
from excora.kernels import loops, loops_backward
from excora.kernels.closed_form import Gradients, Result
from excora.kernels.formulas import Attended, Box

READS_PADDING = False
_LAWS: dict[Law | None, int] = {
    None: loops.CONSTANT,
    given_temperature: loops.LINEAR,
    linear_temperature: loops.LINEAR,
    learned_temperature: loops.POWER,
}
_NO_RESIDUAL = dict.fromkeys(["first", "first_bias", "last", "last_bias", "value", "gamma", "width", "free", "cap"])
_NO_BACKWARD = {"shift": None, "offset": None}
_ABSENT = (torch.zeros(1), torch.zeros(1))


def knows(law: Law | None) -> bool:
    """Whether this law is compiled."""
    return law in _LAWS


def forward(box: Box) -> Result:
    """As :func:`excora.kernels.closed_form.forward`."""
    wide = box.h.shape[::2]
    shift, offset = torch.empty(wide), torch.empty(wide)
    return Result(_forward(box, {**_NO_RESIDUAL, "shift": shift, "offset": offset}), shift, offset)


def forward_alone(box: Box) -> Attended:
    """The same without what a backward would ask for."""
    return _forward(box, _NO_RESIDUAL | _NO_BACKWARD)


def forward_with_residual(box: Box, gain: Gain, given: Sequence[Tensor]) -> tuple[Attended, Tensor, Tensor]:
    """And v = mu + gamma (a - mu), gamma = gain(mu), in the same loop: value (bags, dim) and gamma (bags,).

    ``given`` are the gain's weights.
    """
    bags, _, dim = box.h.shape
    names = ("first", "first_bias", "last", "last_bias")
    weights: dict[str, Any] = dict(zip(names, map(_whole, given), strict=True))
    out = {"value": torch.empty(bags, dim), "gamma": torch.empty(bags)}
    form = {"width": len(weights["first"]), "free": gain.form == "free", "cap": gain.cap}
    return _forward(box, {**weights, **out, **form, **_NO_BACKWARD}), out["value"], out["gamma"]


def _forward(box: Box, rest: dict[str, Any]) -> Attended:
    h, (bags, elements, dim) = box.h.contiguous(), box.h.shape
    linear, (base, slope) = box.weight is not None, _law(box)
    if linear and box.scores[0].shape != (dim,):
        raise InputError(f"the scorer has {box.scores[0].numel()} weights for elements of width {dim}")
    wide, each = (bags, dim), (bags, elements)
    logits = torch.empty(each) if linear else box.scores[0].contiguous()
    found = Attended(
        torch.empty(wide), torch.empty(wide), torch.empty(each), logits, torch.empty(bags), torch.empty(bags)
    )
    loops.forward(
        bags, h.numel(), bags=bags, elements=elements, dim=dim,
        h=h, real=_whole(box.real), keep=_whole(box.keep),
        weight=box.scores[0].contiguous() if linear else None, bias=box.scores[1] if linear else None, scale=box.scale,
        law=_LAWS[box.law], base=base, bases=base.numel(), slope=slope, slopes=slope.numel(), divisor=box.divisor,
        **found._asdict(), **rest,
    )  # fmt: skip
    return found


def backward(box: Box, result: Result, grads: Sequence[Tensor | None], out: Tensor | None) -> Gradients:
    """As :func:`excora.kernels.closed_form.backward`."""
    h, (bags, elements, dim) = box.h.contiguous(), box.h.shape
    linear, (_, slope), found = box.weight is not None, _law(box), result.found
    g_a, g_mu, g_alpha, g_z, g_tau, g_sigma = map(_whole, grads)
    d_z, d_weight = torch.empty(bags, elements), torch.empty(bags, dim) if linear else None
    d_base, d_slope = torch.empty(bags), torch.empty(bags)
    loops_backward.backward(
        bags, 2 * h.numel(), bags=bags, elements=elements, dim=dim,
        h=h, real=_whole(box.real), weight=box.scores[0].contiguous() if linear else None, scale=box.scale,
        law=_LAWS[box.law], slope=slope, slopes=slope.numel(), divisor=box.divisor,
        weights=found.weights.contiguous(), logits=found.logits.contiguous(),
        temperature=found.temperature.contiguous(), dispersion=found.dispersion.contiguous(),
        shift=result.shift.contiguous(), offset=result.offset.contiguous(),
        g_a=g_a, g_mu=g_mu, g_alpha=g_alpha, g_z=g_z, g_tau=g_tau, g_sigma=g_sigma,
        d_z=d_z, d_weight=d_weight, d_base=d_base, d_slope=d_slope, d_h=out,
    )  # fmt: skip
    pairs = zip(box.parameters, (d_base, d_slope), strict=False)
    parameters = tuple((d if x.numel() > 1 else d.sum()).to(x.dtype).view_as(x) for x, d in pairs)
    return Gradients(d_z, None if d_weight is None else d_weight.sum(0).mul_(box.scale), parameters)


def _law(box: Box) -> tuple[Tensor, Tensor]:
    """The law's base and slope, of one number or one a bag."""
    base, slope = (*box.parameters, *_ABSENT)[:2]
    return base.float().contiguous(), slope.float().contiguous()


def _whole(x: Tensor | None) -> Tensor | None:
    """Row by row in memory, as the loops take it."""
    return None if x is None else x.contiguous()
