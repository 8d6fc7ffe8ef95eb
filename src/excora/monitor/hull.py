"""Per-bag figures of one batch, as a monitor needs them: attention, dispersion, radius, the reach of convex weights.

Some seven passes over ``h`` and nothing of its size written or kept; four passes where the pool has already measured
dispersion and radius, as :class:`excora.ECAPool` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.diagnosis.collapse import mean_cosine
from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, check_bags, element_count
from excora.pooling.base import Pooled
from excora.ragged import Ragged

Head = nn.Module | Tensor | Callable[[Tensor], Tensor]
Columns = dict[str, Tensor]  # name -> (bags,) or (bags, targets)


class Slope(NamedTuple):
    """The head seen from the pooled values: yhat_s = value_s + slope_s.(v - v_s), exact for a linear head.

    ``slope`` is (1, targets, dim) for a linear head, (bags, targets, dim) for the per-sample gradient of another.
    """

    value: Tensor
    slope: Tensor
    linear: bool


def head_slope(head: Head, pooled: Tensor) -> Slope:
    """Value and slope of ``head`` at the pooled values (bags, dim).

    Linear: an ``nn.Linear`` or its weight (dim,) or (targets, dim). Anything else is called in eval mode and
    differentiated by autograd, one backward pass through the head per target.
    """
    v = at_least_float32(pooled.detach())
    if isinstance(head, (nn.Linear, Tensor)):
        weight = head if isinstance(head, Tensor) else head.weight
        bias = None if isinstance(head, Tensor) else head.bias
        weight = weight.detach().to(v.dtype).reshape(-1, weight.shape[-1])
        if weight.shape[1] != v.shape[1]:
            raise InputError(f"head must map the pooled width {v.shape[1]}, got a weight of {tuple(weight.shape)}")
        value = F.linear(v, weight, None if bias is None else bias.detach().to(v.dtype))
        return Slope(value, weight.unsqueeze(0), True)
    training = isinstance(head, nn.Module) and head.training
    if isinstance(head, nn.Module):
        head.eval()  # a probe must not move running statistics, and dropout would make it noise
    try:
        with torch.enable_grad():
            leaf = pooled.detach().clone().requires_grad_()
            out = at_least_float32(head(leaf))
            out = out.unsqueeze(1) if out.dim() == 1 else out
            grads = [torch.autograd.grad(column.sum(), leaf, retain_graph=True)[0] for column in out.unbind(1)]
    finally:
        if isinstance(head, nn.Module):
            head.train(training)
    return Slope(out.detach(), at_least_float32(torch.stack(grads, 1)), False)


def attention_columns(pooled: Pooled, lengths: Tensor | None, mask: Tensor | None) -> Columns:
    """Effective number of elements exp(-sum_i alpha_i log alpha_i) and the number there are; gamma and temperature.

    ``lengths``: of a ragged batch. An empty bag has 0 elements, and an effective number of 1 that counts nowhere.
    ``attends``: 1 where the weights are attention, 0 for a pool like the mean.
    """
    weights = at_least_float32(pooled.weights.detach())
    if lengths is not None:
        weights, mask = Ragged(weights, lengths).pad()
    count = weights.new_full(weights.shape[:1], weights.shape[1]) if mask is None else mask.sum(1).to(weights.dtype)
    attends = torch.full_like(count, float(pooled.attends))
    columns = {"effective": torch.special.entr(weights).sum(1).exp(), "count": count, "attends": attends}
    for name in ("gamma", "temperature"):
        if name in pooled.details:
            columns[name] = at_least_float32(pooled.details[name].detach())
    return columns


def hull_columns(h: Tensor, mask: Tensor | None, known: Columns, value: Tensor | None, slope: Slope | None) -> Columns:
    """What convex weights could do with each bag: its mean mu_s, dispersion sigma_s, radius R_s; its mean cosine.

    With ``slope``, taken at the pooled ``value``, also mean_prediction ybar_s, lowest and highest element prediction,
    and for a linear head reach ||w|| R_s. A non-linear head is replaced by its tangent at v_s. ``known``: dispersion
    and radius where the pool has measured them.
    """
    check_bags(h, mask)
    x = blank_padding(at_least_float32(h.detach()), mask)
    count = element_count(x, mask, x.shape[1])
    mean = x.sum(1) / count  # pairwise, so precise enough to subtract even far from zero
    columns = {"mean": mean, "cosine": mean_cosine(x, mask)}
    columns |= {name: at_least_float32(column.detach()) for name, column in known.items()}
    if len(known) < 2:
        square = _squares(x, mask, mean)
        columns["dispersion"] = (square.sum(1) / count.squeeze(1)).sqrt()
        columns["radius"] = square.amax(1).sqrt() if x.shape[1] else square.sum(1)
    if slope is not None and value is not None:
        rows = slope.slope.expand(len(x), -1, -1)
        centre = torch.bmm(rows, torch.stack([mean, value], 2))
        ybar = slope.value + centre[..., 0] - centre[..., 1]
        low, high = _extremes(torch.bmm(rows, x.transpose(1, 2)) - centre[..., :1], mask)
        columns |= {"mean_prediction": ybar, "lowest": ybar + low, "highest": ybar + high}
        if slope.linear:
            columns["reach"] = slope.slope.norm(dim=-1) * columns["radius"].unsqueeze(1)
    return columns


def _squares(x: Tensor, mask: Tensor | None, mean: Tensor) -> Tensor:
    """||h_i - mu||^2, (bags, elements), 0 in padding: expanded where little cancels, which saves a copy of h."""
    padding = x.new_zeros(1, dtype=torch.bool) if mask is None else ~mask
    if x.device.type == "cpu" and x.shape[1]:
        size = mean.square().sum(1, keepdim=True)
        square = torch.linalg.vector_norm(x, dim=-1).square_().add_(size)
        square.add_(torch.bmm(mean.unsqueeze(1), x.transpose(1, 2)).squeeze(1), alpha=-2.0)
        square.clamp_min_(0.0).masked_fill_(padding, 0.0)
        if bool((square.amax(1, keepdim=True) > 0.01 * size).all()):
            return square
    return torch.linalg.vector_norm(x - mean.unsqueeze(1), dim=-1).square_().masked_fill_(padding, 0.0)


def _extremes(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Smallest and largest over the real elements of (bags, targets, elements); 0 for an empty bag."""
    if scores.shape[2] == 0:
        zero = scores.sum(2)
        return zero, zero.clone()
    if mask is None:
        low, high = torch.aminmax(scores, dim=2)
        return low, high
    real = mask.unsqueeze(1)
    low, high = scores.masked_fill(~real, torch.inf).amin(2), scores.masked_fill(~real, -torch.inf).amax(2)
    full = real.any(2)
    return torch.where(full, low, 0.0), torch.where(full, high, 0.0)
