"""Collapse: whether the elements of a bag have become alike on their way through a network."""

from __future__ import annotations

import torch
from torch import Tensor

from excora.functional import at_least_float32, blank_padding
from excora.ragged import Ragged

#: Elements shorter than this count as 0.
SHORTEST = 1e-12


def mean_cosine(h: Tensor | Ragged, mask: Tensor | None = None) -> Tensor:
    """Mean cosine of two elements of each bag, (bags,): near 1 they point one way; NaN for fewer than two elements.

    sum_(i<j) cos(h_i, h_j) / (n (n - 1) / 2) = (|sum_i u_i|^2 - sum_i |u_i|^2) / (n (n - 1)), u_i = h_i / |h_i|: no
    pair is formed. Elements of 0 have a cosine of 0 with all.

    >>> mean_cosine(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]))
    tensor([0.3333])
    """
    if isinstance(h, Ragged):
        h, mask = h.pad()
    x = blank_padding(at_least_float32(h), mask)
    length = torch.linalg.vector_norm(x, dim=-1)
    share = 1.0 / length.clamp_min(SHORTEST)
    # sum_i u_i as a product: u itself would be a copy of h
    total = torch.bmm(share.unsqueeze(1), x).squeeze(1).square().sum(-1)
    own = (length * share).square().sum(1)
    n = torch.full_like(own, h.shape[1]) if mask is None else mask.sum(1).to(own.dtype)
    return torch.where(n > 1, (total - own) / (n * (n - 1)).clamp_min(1.0), torch.nan)
