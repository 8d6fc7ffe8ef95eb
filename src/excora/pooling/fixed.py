"""Pools whose weights depend on the place of an element alone: a bag is a sequence to them, its first element first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32
from excora.pooling.base import register_pool
from excora.pooling.weighing import Weighed, WeighingPool, shares


class PlacePool(WeighingPool):
    """Base: v = sum_j w_j h_j, w a function of the place j of an element among the real ones, and of their number."""

    attends = False

    def read(self, h: Tensor) -> Tensor:
        """Nothing of the element itself."""
        return at_least_float32(h[..., :0])

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """The weights of the places."""
        ones = x.new_ones(x.shape[:2]) if valid is None else valid.to(x.dtype)
        weights = self.of_places((ones.cumsum(1) - 1.0).clamp_min(0.0), ones)
        return Weighed(shares(weights.abs()), weights, {})

    @abstractmethod
    def of_places(self, place: Tensor, ones: Tensor) -> Tensor:
        """Weights (bags, elements) from places, 0 the first, and ``ones``, 0 where there is no element."""


@register_pool("harmonic", label="harmonic weights", convex=True, usual=False, ordered=True)
class HarmonicPool(PlacePool):
    """What causal self-attention without parameters, averaged over the places, makes of n elements; early ones first.

        w_j = (1/n) [e^tau / (e^tau + j - 1) + sum_(i>j) 1 / (e^tau + i - 1)],  j = 1..n

    of sum 1; tau = 0: (H_n - H_(j-1)) / n. ``tau`` is learned, or stays with ``learn=False``: a baseline without
    parameters. Better than the mean where early elements tell more, worse where late ones do
    (:mod:`excora.theory.spectral`). ``dropout`` takes elements out. An empty bag gives zeros.

    >>> [round(w, 4) for w in HarmonicPool(1)(torch.zeros(1, 3, 1)).weights[0].tolist()]
    [0.6111, 0.2778, 0.1111]
    """

    def __init__(self, dim: int, *, tau: float = 0.0, learn: bool = True, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        if not np.isfinite(tau):
            raise InputError(f"tau must be finite, got {tau}")
        self.tau = nn.Parameter(torch.tensor([float(tau)]), requires_grad=learn)

    def of_places(self, place: Tensor, ones: Tensor) -> Tensor:
        """w_j."""
        own = self.tau.to(place.dtype).exp()
        share = ones / (own + place)
        later = share.sum(1, keepdim=True) - share.cumsum(1)
        # The last has none later: what rounding leaves there must not make a weight negative.
        return (own * share + later.clamp_min(0.0) * ones) / ones.sum(1, keepdim=True).clamp_min(1.0)

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Tau, which weight decay should leave alone."""
        yield self.tau


class PositionPool(PlacePool):
    """v = sum_j w_j h_j / sum_j w_j with given ``weights`` (L,) of the first L places; later ones have none.

    The best weights for sequences of a correlation R between places are its top eigenvector:
    ``PositionPool(dim, best_weights(R))``, R estimated by :func:`excora.diagnosis.pooling_gain.pooling_gain`. They need
    data, so no name of a pool stands for them. Where the weights of a bag sum to 0 the value is 0.

    >>> PositionPool(1, [3.0, 1.0])(torch.tensor([[[1.0], [5.0], [9.0]]])).value
    tensor([[2.]])
    """

    given: Tensor

    def __init__(self, dim: int, weights: ArrayLike, *, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        found = np.asarray(weights, float)
        if found.ndim != 1 or not np.isfinite(found).all() or not found.any():
            raise InputError(f"weights must be finite numbers, one a place, not all 0, got shape {found.shape}")
        self.register_buffer("given", torch.from_numpy(np.append(found, 0.0)).float())

    def of_places(self, place: Tensor, ones: Tensor) -> Tensor:
        """w_j over their sum."""
        each = self.given.to(place.dtype)[place.long().clamp_max(len(self.given) - 1)] * ones
        total = each.sum(1, keepdim=True)
        there = total != 0
        return torch.where(there, each / torch.where(there, total, 1.0), 0.0)
