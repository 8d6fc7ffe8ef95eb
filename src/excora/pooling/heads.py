"""Several heads in one pool: each with a scorer of its own, on channels of its own or on all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, cast

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import blank_padding
from excora.pooling.base import Pool, Pooled, score
from excora.ragged import Ragged
from excora.reduce import Penalty

#: What a head pools: its share of an element's channels, or all of them.
Values = Literal["split", "shared"]
#: A scorer, or a function that makes one.
Scorer = nn.Module | Callable[[], nn.Module]


class HeadedPool(Pool, ABC):
    """Base of the pools that can have ``heads``, each a pool of the same kind with a scorer of its own.

    ``values="split"``: head k pools the k-th part of the channels, and v has the width of an element.
    ``values="shared"``: each pools all channels, and v is ``heads`` times as wide (:attr:`width`). Scorers read all
    channels either way. With several heads ``weights``, ``effective`` and the figures in ``details`` are means over
    heads, and ``details["heads"]``, (heads, ...) in the layout of the weights, holds each head's effective weights.
    """

    def __init__(self, dim: int, heads: int, values: Values, make: Callable[[int], HeadedPool]) -> None:
        super().__init__(dim)
        if values not in ("split", "shared"):
            raise InputError(f"values of the heads must be 'split' or 'shared', got {values!r}")
        if heads < 1 or (values == "split" and dim % heads):
            raise InputError(f"heads must be at least 1 and divide the width {dim} unless it is shared, got {heads}")
        self.values: Values = values
        part = dim // heads if values == "split" else dim
        # A head is a pool of `part` channels whose scorer reads all `dim`.
        self.heads = nn.ModuleList([make(part) for _ in range(heads)]) if heads > 1 else None

    @abstractmethod
    def _with_scores(self, h: Tensor | Ragged, mask: Tensor | None, scores: tuple[Tensor, ...], scale: float) -> Pooled:
        """One head: the pool by scores as :func:`excora.kernels.attend.attend` takes them."""

    @property
    def width(self) -> int:
        """Of the value."""
        return self.dim * (len(self.heads) if self.heads is not None and self.values == "shared" else 1)

    def elements(self, h: Tensor | Ragged) -> Tensor | Ragged:
        """What the value is made of, for a monitor: the elements, once for each head that pools all their channels."""
        times = self.width // self.dim
        if times == 1:
            return h
        return Ragged(h.values.repeat(1, times), h.lengths) if isinstance(h, Ragged) else h.repeat(1, 1, times)

    def together(self, h: Tensor | Ragged, mask: Tensor | None) -> Pooled:
        """All heads."""
        assert self.heads is not None
        heads = [cast(HeadedPool, head) for head in self.heads]
        if self.values == "shared":
            found = [head(h, mask) for head in heads]
        else:
            whole = h.values if isinstance(h, Ragged) else blank_padding(h, mask)
            logits = [score(head.get_submodule("scorer"), whole) for head in heads]
            parts = [_channels(h, k * head.dim, head.dim) for k, head in enumerate(heads)]
            found = [head._with_scores(x, mask, (z,), 1.0) for head, x, z in zip(heads, parts, logits, strict=True)]
        first, each = found[0], torch.stack([one.effective for one in found])
        details = {name: torch.stack([one.details[name] for one in found]).mean(0) for name in first.details}
        penalty = Penalty(torch.stack([one.penalty.sum for one in found]).mean(0), first.penalty.count)
        return Pooled(
            torch.cat([one.value for one in found], 1),
            torch.stack([one.weights for one in found]).mean(0),
            penalty,
            {**details, "effective": each.mean(0), "heads": each},
            first.real,
        )


def scorer_of(scorer: Scorer | None, heads: int, usual: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """How a head gets its scorer."""
    if scorer is None:
        return usual
    if not isinstance(scorer, nn.Module):
        return scorer
    if heads > 1:
        raise InputError(f"each of the {heads} heads has a scorer of its own: give a function that makes one")
    return lambda: scorer


def _channels(h: Tensor | Ragged, start: int, width: int) -> Tensor | Ragged:
    if isinstance(h, Ragged):
        return Ragged(h.values[:, start : start + width], h.lengths)
    return h[..., start : start + width]
