"""Kriging as a pool: the best linear unbiased weights, which know how alike the elements are to each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import masked_softmax
from excora.pooling.base import register_pool
from excora.pooling.weighing import Keys, Weighed, WeighingPool

#: The least nugget: as many as 100 equal elements then keep four digits in single precision.
LEAST = 1e-3


@register_pool("kriging", label="kriging attention", convex=False, usual=False)
class KrigingPool(WeighingPool):
    """Ordinary kriging of the elements at the query: weights of sum 1 that may be negative.

    With the kernel K_ij = exp(-||key_i - key_j|| / l), k_i = exp(-||key_i - query|| / l) and the nugget nu::

        C = K + nu I,  a = C^-1 k,  b = C^-1 1,  v = m + a . (h - m),  m = b . h / (1 . b)
        so that v = sum_i e_i h_i with e = a + (1 - 1.a) b / (1.b)

    m is the generalised-least-squares mean; l = exp(``log_length``) and nu = softplus(``raw_nugget``) + 1e-3 are
    learned from ``length`` and ``nugget``. Two elements that are alike share their weight, where a softmax counts them
    twice; one that stands behind another may have a negative weight. It is the prediction of a Gaussian process with
    that kernel, noise nu and an unknown constant mean; ``details["variance"]`` is its predictive variance without the
    noise, in units of the process' own: 1 - k.a + (1 - 1.a)^2 / (1.b). A large nugget gives the mean of the bag.

    ``keys``: how many channels of an element, its first, are its key's difference from the query; None for a plain bag,
    which then has ``rank`` channels of keys and a query of its own to learn. ``weights`` are those of kernel regression
    with the same kernel, k_i / sum_j k_j. ``dropout`` takes elements out. An empty bag gives zeros (and a variance of
    1), one of a single element that element. A bag of n elements takes n^2 numbers and n^3 / 3 operations.

    Prior art: kriging is Matheron's; attention with weights of a linear system is Local Linear Attention
    (arXiv 2510.01450), its solver-free successor Parallax (arXiv 2605.29157).

    >>> h = torch.tensor([[[-1.0, 0.0], [2.0, 3.0], [2.0, 3.0]]])  # the second element stands twice
    >>> pooled = KrigingPool(2, keys=1)(h)
    >>> [round(x, 2) for x in pooled.effective[0].tolist()]
    [0.63, 0.19, 0.19]
    """

    def __init__(
        self,
        dim: int,
        *,
        keys: int | None = None,
        rank: int = 8,
        length: float = 3.0,
        nugget: float = 0.1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dim, dropout=dropout)
        if not length > 0.0 or not nugget > LEAST:
            raise InputError(f"length must be above 0 and nugget above {LEAST}, got {length} and {nugget}")
        self.keys = Keys(dim, given=keys, width=rank)
        self.log_length = nn.Parameter(torch.tensor([math.log(length)]))
        self.raw_nugget = nn.Parameter(torch.tensor([_unsoftplus(nugget - LEAST)]))

    def read(self, h: Tensor) -> Tensor:
        """key_i - query."""
        return self.keys(h)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Kernel regression and kriging."""
        rate = (-self.log_length.to(x.dtype)).exp()
        nugget = F.softplus(self.raw_nugget.to(x.dtype)) + LEAST
        logits = -torch.linalg.vector_norm(x, dim=-1) * rate
        ones = torch.ones_like(logits) if valid is None else valid.to(x.dtype)
        # Exact differences, not |a|^2 - 2 a.b + |b|^2: equal elements are at distance 0, and its gradient there is 0.
        kernel = (-torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") * rate).exp()
        # What is not there is a variable of its own, of variance 1, that nothing depends on.
        c = kernel * (ones.unsqueeze(1) * ones.unsqueeze(2)) + torch.diag_embed(1.0 + (nugget - 1.0) * ones)
        near = logits.exp() * ones
        a, b = torch.cholesky_solve(torch.stack([near, ones], 2), torch.linalg.cholesky_ex(c).L).unbind(2)
        total, missing = b.sum(1, keepdim=True), 1.0 - a.sum(1, keepdim=True)
        there = total > 0
        share = torch.where(there, missing / torch.where(there, total, 1.0), 0.0)
        variance = 1.0 - (near * a).sum(1) + (share * missing).squeeze(1)
        details = {"logits": logits, "variance": variance}
        return Weighed(masked_softmax(logits, valid), a + share * b, details)

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Length and nugget, which weight decay should leave alone."""
        yield from (self.log_length, self.raw_nugget)


def _unsoftplus(x: float) -> float:
    """The number whose softplus is x > 0."""
    return x + math.log(-math.expm1(-x))
