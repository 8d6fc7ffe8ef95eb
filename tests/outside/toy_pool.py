"""A pool of another package, in one file: the difference of two softmaxes, whose weights may be negative."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from excora.functional import at_least_float32, blank_padding, masked_softmax
from excora.pooling import Pool, Pooled, register_pool
from excora.pooling.base import score
from excora.ragged import Ragged
from excora.reduce import Penalty


@register_pool("toy-pool", label="two softmaxes", convex=False)
class DifferencePool(Pool):
    """v = sum_i (2 alpha_i - beta_i) h_i, where alpha and beta are softmaxes of a linear scorer each."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.more, self.less = (nn.Linear(dim, 1, bias=False) for _ in range(2))

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag."""
        self.check(h, mask)
        if isinstance(h, Ragged):
            padded, inside = h.pad()
            found = self(padded, inside)
            details = {"effective": found.effective[inside]}
            return Pooled(found.value, found.weights[inside], found.penalty, details, h.lengths)
        real = blank_padding(h, mask)
        alpha, beta = (masked_softmax(score(scorer, real), mask) for scorer in (self.more, self.less))
        effective = 2 * alpha - beta
        value = (effective.unsqueeze(-1) * at_least_float32(real)).sum(1).to(h.dtype)
        nothing = torch.zeros((), dtype=alpha.dtype, device=alpha.device)
        return Pooled(value, alpha, Penalty(nothing, nothing), {"effective": effective}, mask)
