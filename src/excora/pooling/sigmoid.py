"""Sigmoid attention pooling: every element is judged by itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora.pooling.base import register_pool, score
from excora.pooling.plain import LinearScorer
from excora.pooling.weighing import Weighed, WeighingPool, shares


@register_pool("sigmoid", label="sigmoid attention", convex=False, usual=False)
class SigmoidPool(WeighingPool):
    """v = sum_i e_i h_i, e_i = sigmoid(z_i - log n + c) for a bag of n elements, with a learned c.

    Elements do not compete: the weights sum to anything from 0 to n, and to about 1 at the start. ``scorer`` as in
    :class:`excora.SoftmaxPool`. ``weights`` are the e_i over their sum. ``dropout`` takes elements out. An empty bag
    gives zeros. After Theory, Analysis, and Best Practices for Sigmoid Self-Attention (arXiv 2409.04431).

    >>> pool = SigmoidPool(4, scorer=nn.Linear(4, 1, bias=False))
    >>> [round(e, 3) for e in pool(torch.zeros(1, 3, 4)).effective[0].tolist()]
    [0.25, 0.25, 0.25]
    """

    def __init__(self, dim: int, *, scorer: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        self.scorer = LinearScorer(dim) if scorer is None else scorer
        self.shift = nn.Parameter(torch.zeros(1))  #: c; the scorer's own bias is not trained where a model makes it

    def read(self, h: Tensor) -> Tensor:
        """z."""
        return score(self.scorer, h).unsqueeze(-1)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Shares of the sigmoids, and the sigmoids."""
        logits = x.squeeze(-1)
        ones = torch.ones_like(logits) if valid is None else valid.to(x.dtype)
        size = ones.sum(1, keepdim=True).clamp_min(1.0)
        each = torch.sigmoid(logits - size.log() + self.shift.to(x.dtype)) * ones
        return Weighed(shares(each), each, {"logits": logits})

    def decay_free(self) -> Iterator[nn.Parameter]:
        """The shift, which weight decay should leave alone."""
        yield self.shift
