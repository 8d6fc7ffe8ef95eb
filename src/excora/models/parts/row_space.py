"""Rows of many more channels than there are rows, in the few coordinates that their distances need.

A metric that is learned weighs principal directions then, and not channels: quicker by as much as they are fewer.
Where both were tried (144 rows, 374 channels: two splits) weights of channels were better, so it is for very wide
tables alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: Channels a row from which on coordinates stand for them.
WIDER = 4
#: Rows up to which coordinates are looked for: an eigenvalue problem of their number.
MOST_ROWS = 3000
#: Directions whose variance is a smaller part of the largest one are rounding errors.
SMALLEST = 1e-9


class RowSpace(NamedTuple):
    """Coordinates in the span of rows, and the distance from it: u = [(x - m) B, |(x - m) - (x - m) B B'|], B'B = 1.

    Of rows that B was made from, the last is 0, and |u_i - u| = |x_i - x| for any x: neighbours, and kriging by
    Euclidean distances, are those of all channels.
    """

    centre: Tensor  #: (channels,) m
    basis: Tensor  #: (channels, components) B: principal directions, the largest first

    def __call__(self, x: Tensor) -> Tensor:
        """(n, channels) to (n, components + 1), in double precision and then in that of ``x``."""
        apart, basis = x.double() - self.centre.double(), self.basis.double()
        inside = apart @ basis
        outside = (apart - inside @ basis.T).square().sum(1, keepdim=True).sqrt()
        return torch.cat([inside, outside], 1).to(x.dtype)

    def along(self, direction: Tensor) -> Tensor:
        """A direction (channels,) in these coordinates, (components + 1,): x direction, up to a constant, for rows."""
        return torch.cat([direction @ self.basis, direction.new_zeros(1)])


def row_space(x: Tensor) -> RowSpace | None:
    """The span of rows (n, channels), from the eigenvectors of their products; None unless they are very wide and few.

    >>> x = torch.arange(39.0).reshape(3, 13).cos()
    >>> u = row_space(x)(x)
    >>> u.shape, torch.allclose(torch.pdist(u), torch.pdist(x))
    (torch.Size([3, 3]), True)
    """
    if not 1 < len(x) <= MOST_ROWS or x.shape[1] <= WIDER * len(x):
        return None
    centre = x.double().mean(0)
    apart = x.double() - centre
    values, vectors = torch.linalg.eigh(apart @ apart.T)
    values, vectors = values.flip(0), vectors.flip(1)
    real = values > SMALLEST * values[0]
    basis = apart.T @ vectors[:, real] / values[real].sqrt()
    return RowSpace(centre.to(x.dtype), basis.to(x.dtype))
