"""Erf attention pooling: signed weights without a sum, which find the one informative element of a sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, full_precision, unit
from excora.pooling.base import register_pool
from excora.pooling.weighing import Weighed, WeighingPool, shares


@register_pool("erf", label="erf attention", convex=False, usual=False)
class ErfPool(WeighingPool):
    """v = sum_i e_i h_i, e_i = erf(lambda h_i.k), |k| = 1; lambda = exp(``log_sharpness``) is learned.

    Elements do not compete, and one on the other side of k counts negatively. The weights sum to anything from -n to
    n. ``sharpness``: lambda at the start, for elements of unit scale. ``weights`` are the absolute e_i over their sum.
    ``dropout`` takes elements out. An empty bag gives zeros. What it can reach where one element carries the label is
    known: :mod:`excora.theory.single_location` (Marion, Berthier, Biau and Boyer, ICLR 2025).

    >>> pool = ErfPool(2, sharpness=2.0)
    >>> _ = pool.load_state_dict({"key": torch.tensor([1.0, 0.0]), "log_sharpness": torch.zeros(1)})
    >>> [round(e, 3) for e in pool(torch.tensor([[[1.0, 5.0], [-1.0, 2.0]]])).effective[0].tolist()]
    [0.843, -0.843]
    """

    def __init__(self, dim: int, *, sharpness: float = 0.5, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        if not 0.0 < sharpness < math.inf:
            raise InputError(f"sharpness must be positive and finite, got {sharpness}")
        self.key = nn.Parameter(torch.randn(dim))  #: k, of any length
        self.log_sharpness = nn.Parameter(torch.tensor([math.log(sharpness)]))

    def read(self, h: Tensor) -> Tensor:
        """lambda h.k."""
        h = at_least_float32(h)
        with full_precision(h.device):
            k = unit(self.key.to(h.dtype))
            return (h @ k * self.log_sharpness.to(h.dtype).exp()).unsqueeze(-1)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Shares of the absolute weights, and the weights."""
        logits = x.squeeze(-1)
        each = torch.erf(logits)
        each = each if valid is None else each * valid.to(x.dtype)
        return Weighed(shares(each.abs()), each, {"logits": logits})

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Key and sharpness: one has no length, the other a scale of its own."""
        yield from (self.key, self.log_sharpness)
