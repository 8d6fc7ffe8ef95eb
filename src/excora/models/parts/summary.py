"""What the head of a pooled model may see of a bag beside the attended value: mean, spread, sum, size."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, element_count, safe_sqrt
from excora.pooling import Pool, Pooled
from excora.ragged import Ragged


class Moments(NamedTuple):
    """Of each bag."""

    mean: Tensor  #: (bags, dim)
    spread: Tensor  #: (bags, dim) the deviation of each channel
    number: Tensor  #: (bags, 1) of elements


def moments(h: Tensor | Ragged, mask: Tensor | None = None) -> Moments:
    """mu = sum_i h_i / n, s = sqrt(sum_i (h_i - mu)^2 / n) by channel, and n; zeros for an empty bag.

    >>> moments(torch.tensor([[[1.0], [3.0]]]))
    Moments(mean=tensor([[2.]]), spread=tensor([[1.]]), number=tensor([[2.]]))
    """
    if isinstance(h, Ragged):
        flat, bag = at_least_float32(h.values), h.bag_index()
        count = h.lengths.to(flat.device, flat.dtype).unsqueeze(1)
        least, empty = count.clamp_min(1.0), flat.new_zeros(len(h), flat.shape[1])
        mean = empty.index_add(0, bag, flat) / least
        return Moments(mean, safe_sqrt(empty.index_add(0, bag, (flat - mean[bag]).square()) / least), count)
    real = blank_padding(at_least_float32(h), mask)
    least = element_count(real, mask, h.shape[1])
    count = real.new_full((len(h), 1), h.shape[1]) if mask is None else mask.sum(1, keepdim=True).to(real.dtype)
    mean = real.sum(1) / least
    apart = blank_padding(real - mean.unsqueeze(1), mask)
    return Moments(mean, safe_sqrt(apart.square().sum(1) / least), count)


#: What there is beside the attended value: its width for elements of a width, and how it follows. ``usual`` is the mean
#: number of elements in training, in whose units a sum and a number are of order 1.
PARTS: dict[str, tuple[Callable[[int], int], Callable[[Moments, float], Tensor]]] = {
    "mean": (lambda dim: dim, lambda m, usual: m.mean),  # noqa: ARG005
    "spread": (lambda dim: dim, lambda m, usual: m.spread),  # noqa: ARG005
    "sum": (lambda dim: dim, lambda m, usual: m.mean * (m.number / usual)),
    "size": (lambda dim: 1, lambda m, usual: ((1.0 + m.number) / (1.0 + usual)).log()),  # noqa: ARG005
    "number": (lambda dim: 1, lambda m, usual: m.number / usual),  # noqa: ARG005
}
#: Those that depend on how many elements are usual.
COUNTED = {"sum", "size", "number"}


def parts_of(words: str) -> list[str]:
    """The parts of ``"attended+mean+..."`` beside the attended value, which must be among them.

    >>> parts_of("attended+mean+size")
    ['mean', 'size']
    """
    found = words.split("+")
    if "attended" not in found or len({*found}) < len(found) or not {*found} <= {"attended", *PARTS}:
        raise InputError(
            f"moments must be attended, and any of {', '.join(PARTS)} joined by +, such as attended+mean+spread; "
            f"got {words!r}"
        )
    return [word for word in found if word != "attended"]


class Summary(nn.Module):
    """``pool`` with a value [attended, parts...]: what a head that may see more than the attended value reads.

    Weights, penalty and details are those of ``pool``; :attr:`width` is that of the value.

    >>> from excora import MeanPool
    >>> Summary(MeanPool(1), ["spread", "number"], usual=4.0)(torch.tensor([[[1.0], [3.0]]])).value
    tensor([[2.0000, 1.0000, 0.5000]])
    """

    def __init__(self, pool: Pool, parts: list[str], *, usual: float) -> None:
        super().__init__()
        self.varying, self.parts, self.usual = pool, parts, usual
        self.width = pool.width + sum(PARTS[part][0](pool.dim) for part in parts)

    def beside(self, h: Tensor | Ragged, mask: Tensor | None) -> Tensor:
        """The parts, (bags, width of all)."""
        found = moments(h, mask)
        return torch.cat([PARTS[part][1](found, self.usual) for part in self.parts], 1)

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag."""
        pooled = self.varying(h, mask)
        return pooled._replace(value=torch.cat([pooled.value, self.beside(h, mask).to(pooled.value.dtype)], 1))

    def elements(self, h: Tensor | Ragged) -> Tensor | Ragged:
        """What the value is made of, for a monitor: the elements, each beside the parts of its bag."""
        shared = self.beside(h, None)
        made = getattr(self.varying, "elements", None)
        inner = h if made is None else made(h)
        if isinstance(inner, Ragged):
            return Ragged(torch.cat([inner.values, shared[inner.bag_index()]], 1), inner.lengths)
        return torch.cat([inner, shared.unsqueeze(1).expand(-1, inner.shape[1], -1)], -1)

    def extra_repr(self) -> str:
        """The parts, when printed."""
        return f"parts={self.parts}, usual={self.usual:g}"
