"""Singular-value decay: how many directions the elements of a bag have, and how many ways of looking an attention has.

    share_k = s_k^2 / sum_j s_j^2,      directions = the least m with share_1 + ... + share_m >= 0.9

s the singular values of the unit elements u_i = h_i / |h_i| of a bag, so that s^2 are the eigenvalues of the kernel
K_ij = cos(h_i, h_j), or those of an attention matrix (queries, keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from excora.errors import InputError

#: The share of the energy that counts as most of it.
ENERGY = 0.9
#: Matrices that are decomposed, evenly spread over those there are, and rows of each: its time grows by their square.
MATRICES, ROWS = 128, 256
#: Shares that are kept of a spectrum, largest first.
KEPT = 32
#: Fewer directions than this on average are one.
ONE = 1.5


class Decay(NamedTuple):
    """Means over matrices, those of which fewer than two rows or columns are there left out."""

    shares: list[float]  #: of the energy, largest first; at most :data:`KEPT`
    directions: float  #: the fewest that carry 90 % of it
    most: float  #: how many there could be: the lesser of rows and columns
    matrices: int  #: how many were decomposed

    def reading(self, kind: str) -> str:
        """In one line, of ``kind`` "elements", "attention" or "primal attention".

        >>> Decay([1.0], 1.0, 8.0, 4).reading("elements")
        'one direction of 8: the elements are alike, and no weights can tell them apart'
        """
        few, many, one = READINGS[kind]
        said = one if self.directions < ONE else few if self.directions < self.most / 4 else many
        count = "one direction" if self.directions < ONE else f"{self.directions:.1f} directions"
        return f"{count} of {self.most:.4g}: {said}"


#: Few, many, one.
READINGS = {
    "elements": (
        "the elements are of low rank, and a few projections would stand for them",
        "the elements are spread, and no few projections stand for them",
        "the elements are alike, and no weights can tell them apart",
    ),
    "attention": (
        "there are few ways of looking, and attention of low rank would do",
        "elements look each in their own way, and low rank would lose much",
        "every element looks at the same",
    ),
    "primal attention": (
        "a smaller rank would do",
        "the rank is used; a larger one may hold more",
        "one projection does all",
    ),
}


def energy_decay(matrices: Sequence[Tensor]) -> Decay | None:
    """Of the singular values of each (rows, columns), in float64; None where none has two of both.

    A matrix of zeros has no directions and counts as one of none. Of more than :data:`MATRICES` some are taken, and of
    more than :data:`ROWS` rows some of them, evenly spread.

    >>> low = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)) @ torch.eye(2, 16)
    >>> energy_decay([low]).directions
    2.0
    """
    for x in matrices:
        if x.dim() != 2:
            raise InputError(f"a spectrum is of matrices (rows, columns), got the shape {tuple(x.shape)}")
    large = [x for x in matrices if min(x.shape) > 1]
    if not large:
        return None
    shares = torch.zeros(len(some := _spread(large, MATRICES)), KEPT, dtype=torch.float64)
    directions, most = [], []
    for k, x in enumerate(some):
        rows = x[torch.linspace(0, len(x) - 1, min(len(x), ROWS), device=x.device).round().long()]
        energy = torch.linalg.svdvals(rows.detach().double().cpu()).square()
        share = energy / energy.sum().clamp_min(torch.finfo(torch.float64).tiny)
        shares[k, : len(share)] = share[:KEPT]
        # 1e-9: 0.9 of ten equal ones is nine, whatever rounding says
        directions.append(float((share.cumsum(0) < ENERGY - 1e-9).sum() + 1) if energy[0] > 0 else 0.0)
        most.append(len(share))
    mean = shares.mean(0)[: max(most)]
    return Decay(mean.tolist(), sum(directions) / len(some), sum(most) / len(some), len(some))


def element_decay(parts: Sequence[tuple[Tensor, Tensor | None]]) -> Decay | None:
    """Of the unit elements of each bag, of batches (bags, elements, dim) with their masks.

    >>> h = torch.randn(8, 1, 6).expand(8, 5, 6)                    # each bag has one element, five times
    >>> element_decay([(h, None)]).directions
    1.0
    """
    bags = [(x, None if mask is None else mask[k]) for h, mask in parts for k, x in enumerate(h)]
    real = (x if mask is None else x[mask] for x, mask in _spread(bags, MATRICES))
    return energy_decay([F.normalize(x.double(), dim=-1) for x in real])


def attention_decay(weights: Tensor) -> Decay | None:
    """Of each attention matrix of (bags, heads, queries, keys).

    >>> attention_decay(torch.full((2, 1, 4, 4), 0.25)).directions  # every element looks at all alike
    1.0
    """
    return energy_decay(list(weights.flatten(0, 1)))


def spectrum_decay(values: Tensor) -> Decay | None:
    """Of singular values (heads, rank) that are known, as :class:`excora.primal.PrimalAttention` keeps them.

    >>> spectrum_decay(torch.tensor([[3.0, 1.0]])).shares
    [0.9, 0.1]
    """
    return energy_decay([torch.diag(row) for row in values.double()])


def _spread(every: list[Any], most: int) -> list[Any]:
    places = torch.linspace(0, len(every) - 1, min(len(every), most)).round().long()
    return [every[k] for k in places.tolist()]
