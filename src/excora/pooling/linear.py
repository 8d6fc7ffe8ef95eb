"""Linear attention pooling for labelled examples and a query: a preconditioned step of gradient descent."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32
from excora.pooling.base import register_pool
from excora.pooling.weighing import Weighed, WeighingPool, shares


@register_pool("linear", label="linear attention", convex=False, usual=False, ordered=True)
class LinearPool(WeighingPool):
    """v = sum_(i<n) e_i h_i, e_i = h_n' W h_i / (n - 1): the last element asks, those before it answer; no softmax.

    With elements (x_i, y_i) and a last one (x, 0) the last channel of v is x' W sum_i y_i x_i / (n - 1), one step of
    gradient descent on the examples; :mod:`excora.theory.in_context` has the best W and its risk. W, learned, starts
    at I / sqrt(dim). ``weights`` are the absolute e_i over their sum. Bags of one element or none give zeros.

    DIFF: a mean over the examples in place of their sum, so that bags of all sizes may share one W.

    >>> pool = LinearPool(2)
    >>> _ = nn.init.eye_(pool.weight)
    >>> pool(torch.tensor([[[1.0, 2.0], [2.0, 4.0], [3.0, 0.0]]])).value[:, 1]  # 3 * (1 * 2 + 2 * 4) / 2
    tensor([15.], grad_fn=<SelectBackward0>)
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.weight = nn.Parameter(torch.eye(dim) / math.sqrt(dim))

    def read(self, h: Tensor) -> Tensor:
        """The elements themselves."""
        return at_least_float32(h)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Shares of the absolute weights, and the weights."""
        ones = x.new_ones(x.shape[:2]) if valid is None else valid.to(x.dtype)
        lag = ones.sum(1, keepdim=True) - ones.cumsum(1)  # 0 for the query, 1 for the example before it
        query = (x * (ones * (lag == 0)).unsqueeze(-1)).sum(1)
        examples = ones * (lag > 0)
        logits = torch.bmm(x, (query @ self.weight.to(x.dtype)).unsqueeze(-1)).squeeze(-1)
        each = logits * examples * self.taps_of(lag) / examples.sum(1, keepdim=True).clamp_min(1.0)
        return Weighed(shares(each.abs()), each, {"logits": logits})

    def taps_of(self, lag: Tensor) -> Tensor:
        """omega of each example, by how long before the query it came."""
        return torch.ones_like(lag)


@register_pool("weighted-linear", label="weighted linear attention (H3)", convex=False, usual=False, ordered=True)
class WeightedLinearPool(LinearPool):
    """As :class:`LinearPool`, with e_i = omega_(n-i) h_n' W h_i / (n - 1): one learned weight a lag, as in H3.

    For examples in order of time, whose task drifts: omega starts at 1, and the oldest of ``taps`` lags stands for all
    that are older. The best omega for a known drift is :func:`excora.theory.in_context.drift`.

    >>> WeightedLinearPool(3)(torch.randn(2, 5, 3)).value.shape
    torch.Size([2, 3])
    """

    def __init__(self, dim: int, *, taps: int = 64) -> None:
        super().__init__(dim)
        if taps < 1:
            raise InputError(f"taps must be at least 1, got {taps}")
        self.taps = nn.Parameter(torch.ones(taps))

    def taps_of(self, lag: Tensor) -> Tensor:
        """omega_lag."""
        return self.taps.to(lag.dtype)[(lag.long() - 1).clamp(0, len(self.taps) - 1)]
