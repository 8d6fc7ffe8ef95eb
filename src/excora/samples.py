"""Predictions and labels of a batch of samples, checked and brought to one shape, with mask and weight as one.

``prediction`` and ``target`` are both (n,), both (n, 1) or both (n, targets); ``mask`` is boolean with True for a known
label, ``weight`` is non-negative, each of shape (n,), (n, 1) or (n, targets).
"""

from __future__ import annotations

import torch
from torch import Tensor

from excora.errors import InputError
from excora.functional import at_least_float32


def columns(
    prediction: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Check the arguments and return x, y (n, targets) in float32 or better, blank where masked, and the weights.

    Weights are None (all equal) or (n, targets), the mask merged in.
    """
    if not prediction.is_floating_point() or prediction.dim() not in (1, 2):
        raise InputError(
            "prediction must be a floating tensor of shape (n,), (n, 1) or (n, targets), "
            f"got {prediction.dtype} of shape {tuple(prediction.shape)}"
        )
    if prediction.shape != target.shape:
        raise InputError(
            f"prediction and target must have one shape, got {tuple(prediction.shape)} and {tuple(target.shape)}: "
            "broadcasting them would compare every sample with every other; use squeeze(1) or unsqueeze(1)"
        )
    dtype = torch.promote_types(at_least_float32(prediction).dtype, target.dtype)
    x, y = (t.to(dtype) if t.dim() == 2 else t.to(dtype).unsqueeze(1) for t in (prediction, target))
    w = _merged_weights(x, mask, weight)
    if w is None:
        return x, y, None
    blank = w == 0
    return x.masked_fill(blank, 0.0), y.masked_fill(blank, 0.0), w


def transformed() -> bool:
    """Whether a torch.func transform is running: what is computed in it can neither be read nor outlive it.

    >>> transformed(), torch.func.vmap(lambda x: x + transformed())(torch.zeros(2))
    (False, tensor([1., 1.]))
    """
    return bool(torch._C._are_functorch_transforms_active())


def _merged_weights(x: Tensor, mask: Tensor | None, weight: Tensor | None) -> Tensor | None:
    """Mask and sample weight as one (n, targets) tensor, or None where neither is given."""
    if mask is not None:
        if mask.dtype != torch.bool:
            raise InputError(f"mask must be boolean with True for a known label, got {mask.dtype}")
        mask = _expanded("mask", mask, x)
    if weight is None:
        return None if mask is None else mask.to(x.dtype)
    if weight.requires_grad:
        raise InputError("weight must be a constant, got a tensor that requires a gradient; use weight.detach()")
    w = _expanded("weight", weight, x).to(x.dtype)
    if mask is not None:
        w = w.masked_fill(~mask, 0.0)
    valid = (w >= 0) & w.isfinite()
    # Where values cannot be read back without a stall, or not at all, invalid weights count as 0.
    if w.device.type == "cpu" and not (torch.compiler.is_compiling() or transformed()) and not bool(valid.all()):
        raise InputError(f"weight must be finite and not negative, got {w[~valid][0].item()}; mask such rows instead")
    return torch.where(valid, w, 0.0)


def _expanded(name: str, t: Tensor, x: Tensor) -> Tensor:
    """``t`` of shape (n,), (n, 1) or (n, targets) as (n, targets)."""
    column = t.unsqueeze(1) if t.dim() == 1 else t
    if column.dim() != 2 or column.shape[0] != x.shape[0] or column.shape[1] not in (1, x.shape[1]):
        raise InputError(
            f"{name} must have shape ({x.shape[0]},), ({x.shape[0]}, 1) or {tuple(x.shape)}, got {tuple(t.shape)}"
        )
    return column.expand_as(x)
