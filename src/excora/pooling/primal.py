"""Primal attention pooling: scores from the projections of an asymmetric kernel SVD."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, full_precision, masked_softmax, unit
from excora.pooling.base import register_pool
from excora.pooling.weighing import Weighed, WeighingPool
from excora.primal import ksvd_objective
from excora.reduce import Penalty


@register_pool("primal", label="primal attention", convex=True, usual=False)
class PrimalPool(WeighingPool):
    """v = sum_i alpha_i h_i, alpha = softmax(a.[e_i; r_i]), e = phi(q) W_e and r = phi(k) W_r, phi(x) = x / |x|.

    q and k are ``width`` channels each, learned; e and r have ``rank``. ``penalty`` is J^2 of each bag
    (:func:`excora.primal.ksvd_objective`), which pulls e and r to the leading singular vectors of the kernel
    phi(q).phi(k). ``dropout`` takes elements out. An empty bag gives zeros. Elements that look at each other:
    :class:`excora.primal.PrimalAttention` before any pool.

    DIFF: the paper's output is linear in [e; r]; weights that a pool can show are made of the same numbers.

    >>> pooled = PrimalPool(4)(torch.randn(2, 3, 4))
    >>> pooled.value.shape, pooled.penalty.count
    (torch.Size([2, 4]), tensor(2.))
    """

    def __init__(self, dim: int, *, width: int = 16, rank: int = 8, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        if not 1 <= rank <= width:
            raise InputError(f"rank must be from 1 to width, got {rank} and {width}")
        self.project = nn.Parameter(torch.randn(2, width, dim) / math.sqrt(dim))  #: of q and of k
        self.w_e, self.w_r = (nn.Parameter(nn.init.orthogonal_(torch.empty(width, rank))) for _ in range(2))
        self.log_scale = nn.Parameter(torch.zeros(rank))  #: of Lam
        self.scores = nn.Parameter(torch.randn(2 * rank) / math.sqrt(2 * rank))  #: a

    def read(self, h: Tensor) -> Tensor:
        """[e; r]."""
        h = at_least_float32(h)
        with full_precision(h.device):
            q, k = (unit(h @ w.to(h.dtype).T) for w in self.project)
            return torch.cat([q @ self.w_e.to(h.dtype), k @ self.w_r.to(h.dtype)], -1)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Softmax of the scores, and J^2."""
        w_e, w_r, log_scale, a = (p.to(x.dtype) for p in (self.w_e, self.w_r, self.log_scale, self.scores))
        logits = x @ a
        alpha = masked_softmax(logits, valid)
        real = None if valid is None else valid.to(x.dtype)
        e, r = x.chunk(2, -1)
        j = ksvd_objective(e, r, w_e, w_r, log_scale.exp(), real)
        there = torch.full_like(j, float(x.shape[1] > 0)) if real is None else (real.sum(1) > 0).to(x.dtype)
        penalty = Penalty((j.square() * there).sum(), there.sum())
        return Weighed(alpha, alpha, {"logits": logits}, penalty)

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Lam, which weight decay should leave alone."""
        yield self.log_scale
