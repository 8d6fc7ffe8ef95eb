"""Base of the pools whose weights follow from a few numbers of each element: the signed ones, and those with keys."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, full_precision, least_divisor
from excora.pooling.base import Pool, Pooled, attention_dropout, check_dropout
from excora.ragged import Ragged
from excora.reduce import Penalty


class Weighed(NamedTuple):
    """What a bag's weights are, (bags, elements) each."""

    weights: Tensor  #: convex: at least 0, of sum 1
    effective: Tensor  #: what makes the value
    details: dict[str, Tensor]
    penalty: Penalty | None = None  #: a regulariser of the pool's own, if it has one


class WeighingPool(Pool):
    """v = sum_i e_i h_i, where the weights e of a bag follow from a few numbers of each element.

    A subclass says which numbers (:meth:`read`) and how they weigh (:meth:`weigh`); layouts, padding, precision and
    dropout, which takes elements out of the bag for one step, are done here.
    """

    attends = True  #: whether the weights depend on the elements

    def __init__(self, dim: int, *, dropout: float = 0.0) -> None:
        super().__init__(dim)
        check_dropout(dropout)
        self.dropout = dropout

    @abstractmethod
    def read(self, h: Tensor) -> Tensor:
        """Elements (..., dim) to what :meth:`weigh` needs of each, (..., numbers), in float32 or better."""

    @abstractmethod
    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """The weights of each bag from ``x`` (bags, elements, numbers); 0 where ``valid``, boolean, is False."""

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag: see :class:`Pooled`."""
        self.check(h, mask)
        keep = attention_dropout(h, mask, self.dropout if self.training else 0.0)
        return self._ragged(h, keep) if isinstance(h, Ragged) else self._padded(h, mask, keep)

    def _padded(self, h: Tensor, mask: Tensor | None, keep: Tensor | None) -> Pooled:
        elements = blank_padding(h, mask)
        valid = mask if keep is None else keep if mask is None else keep & mask
        x = self.read(elements)
        with full_precision(h.device):
            found = self.weigh(x, valid)
            value = torch.bmm(found.effective.unsqueeze(1), elements.to(found.effective.dtype)).squeeze(1)
        return self._pooled(value.to(h.dtype), found, mask)

    def _ragged(self, h: Ragged, keep: Tensor | None) -> Pooled:
        elements = at_least_float32(h.values)
        box, real = Ragged(self.read(h.values), h.lengths).pad()
        valid = real if keep is None else Ragged(keep, h.lengths).pad()[0]
        with full_precision(elements.device):
            found = self.weigh(box, valid)
        flat = {name: x[real] if x.shape == real.shape else x for name, x in found.details.items()}
        found = Weighed(found.weights[real], found.effective[real], flat, found.penalty)
        value = elements.new_zeros(len(h), self.dim)
        value = value.index_add(0, h.bag_index(), found.effective.unsqueeze(1) * elements).to(h.values.dtype)
        return self._pooled(value, found, h.lengths)

    def _pooled(self, value: Tensor, found: Weighed, real: Tensor | None) -> Pooled:
        penalty = found.penalty or Penalty(found.weights.new_zeros(()), found.weights.new_zeros(()))
        details = {**found.details, "effective": found.effective}
        return Pooled(value, found.weights, penalty, details, real, self.attends)


def shares(each: Tensor) -> Tensor:
    """Weights (bags, elements), at least 0, over their sum in each bag; zeros where that is 0 or too small to divide.

    >>> shares(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    total = each.sum(1, keepdim=True)
    there = total > least_divisor(total.dtype)
    return torch.where(there, each / torch.where(there, total, 1.0), 0.0)


class Keys(nn.Module):
    """key_i - query of each element, (..., dim) to (..., width): its first channels, or learned from all of them.

    ``given``: the first so many channels of an element are its key's difference from the query (the sign does not
    matter), as where neighbours of a row are pooled. None: a plain bag, which has neither; then key_i = W h_i /
    sqrt(dim), and one query for all bags, both learned, of ``width`` channels.

    >>> Keys(6, given=2, width=8)(torch.arange(6.0))
    tensor([0., 1.])
    """

    def __init__(self, dim: int, *, given: int | None, width: int) -> None:
        super().__init__()
        if given is not None and not 1 <= given <= dim:
            raise InputError(f"keys must be the number of an element's first channels, from 1 to {dim}, got {given}")
        if width < 1:
            raise InputError(f"a key must have at least 1 channel, got {width}")
        self.given, self.dim, self.width = given, dim, given or width
        if given is None:
            self.weight = nn.Parameter(torch.randn(width, dim))
            self.query = nn.Parameter(torch.zeros(width))

    def forward(self, h: Tensor) -> Tensor:
        """In float32 or better."""
        if self.given is not None:
            return at_least_float32(h[..., : self.given])
        h = at_least_float32(h)
        with full_precision(h.device):
            return h @ (self.weight.to(h.dtype).T / math.sqrt(self.dim)) - self.query.to(h.dtype)

    def extra_repr(self) -> str:
        """Where keys come from, when printed."""
        return f"given={self.given}" if self.given is not None else f"dim={self.dim}, width={self.width}"
