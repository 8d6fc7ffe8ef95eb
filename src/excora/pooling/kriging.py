"""Kriging as a pool: the best linear unbiased weights, which know how alike the elements are to each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import masked_softmax, safe_sqrt, shortened
from excora.pooling.base import register_pool
from excora.pooling.distances import distances
from excora.pooling.weighing import Keys, Weighed, WeighingPool

#: The least nugget: as many as 100 equal elements then keep three digits in single precision.
LEAST = 1e-3


class Kriged(NamedTuple):
    """Weights of elements, and what they leave of the variance of a label without its noise, in units of it."""

    weights: Tensor  #: (..., k)
    variance: Tensor  #: (...)
    factor: Tensor  #: (..., k, k) of Cholesky, A = factor factor'
    level: Tensor  #: (..., k) b = A^-1 1


def krige(between: Tensor, toward: Tensor, nugget: Tensor, real: Tensor | None = None) -> Kriged:
    """The best linear unbiased weights from covariances ``between`` elements (..., k, k) and ``toward`` them (..., k).

    ::

        A = K + diag(nugget),  a = A^-1 k,  b = A^-1 1,  w = a + b (1 - 1'a) / 1'b
        variance = 1 - k'a + (1 - 1'a)^2 / 1'b

    They sum to 1 and may be negative: they know how alike the elements are to each other. w'r = m + a'(r - m 1) with
    the mean m = b'r / b'1 of generalised least squares.

    ``nugget`` (..., k) is the variance of their noise; ``real`` (..., k) says which elements there are: others weigh
    nothing. Without any, weights are 0 and the variance is 1. What has fewer dimensions is broadcast.

    >>> between = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    >>> krige(between, torch.tensor([0.5, 0.5]), torch.tensor(0.0)).weights
    tensor([0.5000, 0.5000])
    """
    ones = torch.ones_like(toward)
    matrix = between + torch.diag_embed(nugget.expand(between.shape[:-1]))
    if real is not None:
        toward, ones = torch.where(real, toward, 0.0), real.to(toward.dtype)
        there = real.unsqueeze(-1) & real.unsqueeze(-2)
        matrix = torch.where(there, matrix, torch.eye(real.shape[-1], dtype=toward.dtype, device=toward.device))
    matrix = matrix.expand(*toward.shape[:-1], *matrix.shape[-2:])
    factor = torch.linalg.cholesky_ex(matrix).L
    a, b = torch.cholesky_solve(torch.stack([toward, ones], -1), factor).unbind(-1)
    total = b.sum(-1, keepdim=True)
    some = total > 0
    lack = torch.where(some, 1 - a.sum(-1, keepdim=True), 0.0)
    share = lack / torch.where(some, total, 1.0)
    return Kriged(a + b * share, 1 - (toward * a).sum(-1) + (lack * share).squeeze(-1), factor, b)


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
        x = shortened(x)
        logits, kernel = -safe_sqrt(x.square().sum(-1)) * rate, (-distances(x) * rate).exp()
        found = krige(kernel, logits.exp(), nugget, valid)
        details = {"logits": logits, "variance": found.variance}
        return Weighed(masked_softmax(logits, valid), found.weights, details)

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Length and nugget, which weight decay should leave alone."""
        yield from (self.log_length, self.raw_nugget)


def _unsoftplus(x: float) -> float:
    """The number whose softplus is x > 0."""
    return x + math.log(-math.expm1(-x))
