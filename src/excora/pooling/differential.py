"""Differential attention pooling: the difference of two softmaxes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora.functional import masked_softmax
from excora.pooling.base import register_pool, score
from excora.pooling.plain import LinearScorer
from excora.pooling.weighing import Weighed, WeighingPool


@register_pool("differential", label="differential attention", convex=False, usual=False)
class DifferentialPool(WeighingPool):
    """v = sum_i e_i h_i, e = (1 + lambda) softmax(z) - lambda softmax(z'), two scorers and a learned lambda.

    What both scorers look at cancels. A fresh pool, of lambda = 0, is softmax attention. ``scorer`` gives z and
    ``other`` z', both z = h.w / sqrt(dim) + b by default. ``dropout`` takes elements out. An empty bag gives zeros.
    After the Differential Transformer (arXiv 2410.05258).

    >>> round(DifferentialPool(4)(torch.randn(1, 3, 4)).effective.sum().item(), 5)
    1.0
    """

    def __init__(
        self, dim: int, *, scorer: nn.Module | None = None, other: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(dim, dropout=dropout)
        self.scorer = LinearScorer(dim) if scorer is None else scorer
        self.other = LinearScorer(dim) if other is None else other
        if isinstance(self.other, LinearScorer):
            self.other.bias.requires_grad_(False)  # a softmax does not see it
        self.balance = nn.Parameter(torch.zeros(1))  #: lambda

    def read(self, h: Tensor) -> Tensor:
        """z and z'."""
        return torch.stack([score(scorer, h) for scorer in (self.scorer, self.other)], -1)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """The first softmax, and the difference."""
        first, second = (masked_softmax(z, valid) for z in x.unbind(-1))
        # DIFF: 1 + lambda in place of the paper's 1, whose sum of 1 - lambda a norm behind it makes up for.
        return Weighed(first, torch.lerp(second, first, 1.0 + self.balance.to(x.dtype)), {"logits": x[..., 0]})

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Lambda, which weight decay should leave alone."""
        yield self.balance
