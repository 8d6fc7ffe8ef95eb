"""Primal attention: self-attention between the elements of a bag in linear memory, by an asymmetric kernel SVD.

    phi(x) = x / |x|,   e_i = phi(q_i) W_e,   r_i = phi(k_i) W_r     (s projections each; no n x n matrix)

At the singular value decomposition of the kernel K_ij = phi(q_i).phi(k_j) = U S V' the objective J of
:func:`ksvd_objective` is 0 and stationary, so J^2 as a penalty pulls the projections there. Chen, Tao, Tonin and
Suykens, "Primal-Attention" (NeurIPS 2023, arXiv 2305.19798); J = 0 at the SVD is derived here and tested.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, check_bags, full_precision, masked_softmax, unit
from excora.reduce import Penalty


def ksvd_objective(
    e: Tensor, r: Tensor, w_e: Tensor, w_r: Tensor, scale: Tensor, valid: Tensor | None = None
) -> Tensor:
    """J = (mean_i |e_i|_Lam^2 + mean_i |r_i|_Lam^2) / 2 - tr(W_e' W_r) of each bag; |e|_Lam^2 = sum_s Lam_s e_s^2.

    ``e`` and ``r`` (..., n, s), ``w_e`` and ``w_r`` (..., p, s), ``scale`` Lam (..., s); ``valid`` (..., n): which
    elements are there. With H_e = U_s and H_r = V_s, W_e = Phi_k' V_s, W_r = Phi_q' U_s and Lam = n / S it is 0.

    >>> one = torch.ones(1, 1)
    >>> ksvd_objective(one, one, one, one, torch.ones(1))
    tensor(0.)
    """
    squares = ((e.square() + r.square()) * scale.unsqueeze(-2)).sum(-1)
    if valid is None:
        mean = squares.mean(-1) if squares.shape[-1] else squares.sum(-1)
    else:
        mean = (squares * valid).sum(-1) / valid.sum(-1).clamp_min(1)
    return mean / 2.0 - (w_e * w_r).sum((-2, -1))


class PrimalAttention(nn.Module):
    """Self-attention of (bags, n, dim), with a mask, to the same shape, in O(n) time and memory.

    For each head, with landmarks c (m, p) that summarise the bag::

        W_e|X = c' W_e,  e = phi(q) W_e|X,  r = phi(k) W_r|X,  output = out([e; r] of all heads)

    The order of the elements does not count. Afterwards ``last_penalty`` holds J^2 of each head and bag as (sum,
    count), for :func:`excora.reduce.penalties` and :class:`excora.JointLoss`, and ``spectrum`` (heads, rank) the
    singular values / sqrt(n) that the projections stand for, largest first: how fast they fall says how many it takes.

    DIFF: landmarks are what m learned queries attend to; the paper takes evenly spaced rows, for which order counts.
    DIFF: Lam = exp(``log_scale``) stays positive.

    >>> layer = PrimalAttention(8, heads=2, rank=3)
    >>> layer(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    last_penalty: Penalty | None
    spectrum: Tensor | None

    def __init__(self, dim: int, *, heads: int = 4, rank: int = 16, landmarks: int = 32) -> None:
        super().__init__()
        if heads < 1 or dim % heads or rank < 1 or landmarks < 1:
            raise InputError(
                f"heads must divide dim, rank and landmarks be at least 1, got {heads}, {dim}, {rank} and {landmarks}"
            )
        self.dim, self.heads, self.rank = dim, heads, rank
        self.project = nn.Linear(dim, 2 * dim, bias=False)  # q and k; there are no values
        self.asks = nn.Parameter(torch.randn(landmarks, dim) / math.sqrt(dim))
        self.w_e, self.w_r = (nn.Parameter(_orthogonal(heads, landmarks, rank)) for _ in range(2))
        self.log_scale = nn.Parameter(torch.zeros(heads, rank))
        self.out = nn.Linear(2 * rank * heads, dim)
        self.last_penalty, self.spectrum = None, None

    def forward(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        """Elements that have looked at each other; zeros where there is none."""
        check_bags(h, mask)
        if h.shape[2] != self.dim:
            raise InputError(f"this layer was made for elements of width {self.dim}, got {h.shape[2]}")
        x = blank_padding(h, mask)
        q, k = (self._split(part) for part in self.project(x).chunk(2, -1))
        landmarks = self._split(self._summary(x, mask).to(x.dtype))  # (bags, heads, m, p)
        w_e, w_r = (landmarks.mT @ w for w in (self.w_e, self.w_r))
        e, r = unit(q) @ w_e, unit(k) @ w_r
        self._keep(e, r, w_e, w_r, mask)
        found = self.out(torch.cat([e, r], -1).transpose(1, 2).flatten(2))
        return found if mask is None else found * mask.unsqueeze(-1)

    def _split(self, x: Tensor) -> Tensor:
        """(bags, n, dim) to (bags, heads, n, p)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _summary(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """m landmarks of each bag, (bags, m, dim): softmax attention of the learned queries."""
        x = at_least_float32(x)
        with full_precision(x.device):
            scores = self.asks.to(x.dtype) @ x.mT / math.sqrt(self.dim)  # (bags, m, n)
            valid = None if mask is None else mask.unsqueeze(1).expand_as(scores).flatten(0, 1)
            return masked_softmax(scores.flatten(0, 1), valid).view_as(scores) @ x

    def _keep(self, e: Tensor, r: Tensor, w_e: Tensor, w_r: Tensor, mask: Tensor | None) -> None:
        scale = self.log_scale.exp()
        valid = None if mask is None else mask.unsqueeze(1).to(e.dtype)
        j = ksvd_objective(e, r, w_e, w_r, scale, valid)  # (bags, heads)
        there = torch.ones_like(j) if mask is None else mask.any(1, keepdim=True).to(j.dtype).expand_as(j)
        self.last_penalty = Penalty((j.square() * there).sum(), there.sum().detach())
        count = e.shape[2] if valid is None else valid.sum(-1).clamp_min(1.0).unsqueeze(-1)
        # e = U S with |U_s| = 1: the length of a column of e is its singular value, which grows with sqrt(n).
        lengths = torch.linalg.vector_norm(e.detach() if valid is None else e.detach() * valid.unsqueeze(-1), dim=2)
        self.spectrum = (lengths / torch.as_tensor(count).sqrt()).mean(0).sort(-1, descending=True).values


def _orthogonal(heads: int, rows: int, columns: int) -> Tensor:
    return torch.stack([nn.init.orthogonal_(torch.empty(rows, columns)) for _ in range(heads)])
