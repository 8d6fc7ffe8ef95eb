"""Signed attention pooling: the sign of a score is the sign of its weight."""

from __future__ import annotations

from torch import Tensor

from excora.functional import masked_softmax
from excora.pooling.base import register_pool, score
from excora.pooling.plain import LinearScorer
from excora.pooling.weighing import Weighed, WeighingPool


@register_pool("signed", label="signed attention (Cog)", convex=False, usual=False)
class SignedPool(WeighingPool):
    """v = sum_i e_i h_i, e_i = sign(z_i) exp(|z_i|) / sum_j exp(|z_j|), z = h.w / sqrt(dim) + b.

    Absolute weights sum to 1 (they are ``weights``); a weight jumps where its score passes 0. ``dropout`` takes
    elements out. An empty bag gives zeros. Cog attention, More Expressive Attention with Negative Weights
    (arXiv 2411.07176).

    >>> import torch
    >>> round(SignedPool(4)(torch.randn(1, 3, 4)).effective.abs().sum().item(), 5)
    1.0
    """

    def __init__(self, dim: int, *, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        self.sign = LinearScorer(dim)  # no scorer to choose: a distance has one sign, and the bias counts here

    def read(self, h: Tensor) -> Tensor:
        """z."""
        return score(self.sign, h).unsqueeze(-1)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Without the signs, and with them."""
        logits = x.squeeze(-1)
        shares = masked_softmax(logits.abs(), valid)
        return Weighed(shares, shares * logits.sign(), {"logits": logits})
