"""The pools that stay inside the convex hull of a bag: mean, softmax attention, gated attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from excora.functional import at_least_float32, blank_padding, element_count
from excora.kernels.attend import attend
from excora.kernels.function import is_bare
from excora.pooling.base import Pool, Pooled, attention_dropout, check_dropout, register_pool, score
from excora.pooling.heads import HeadedPool, Scorer, Values, scorer_of
from excora.ragged import Ragged
from excora.reduce import Penalty


def _no_penalty(value: Tensor) -> Penalty:
    return Penalty(value.new_zeros(()), value.new_zeros(()))


@register_pool("mean", convex=True)
class MeanPool(Pool):
    """The mean of the real elements: v = mu = (1/n) sum_i h_i; zero for an empty bag.

    >>> MeanPool(1)(torch.tensor([[[1.0], [3.0]]])).value
    tensor([[2.]])
    """

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag: see :class:`Pooled`."""
        self.check(h, mask)
        if isinstance(h, Ragged):
            flat = at_least_float32(h.values)
            count = h.lengths.clamp_min(1).to(flat.device, flat.dtype)
            weights = (1.0 / count)[h.bag_index()]
            total = flat.new_zeros(len(h), self.dim).index_add(0, h.bag_index(), flat)
            value = (total / count.unsqueeze(1)).to(h.values.dtype)
        else:
            x = blank_padding(at_least_float32(h), mask)
            count = element_count(x, mask, h.shape[1])
            weights = (x.new_ones(h.shape[:2]) if mask is None else mask.to(x.dtype)) / count
            value = (x.sum(1) / count).to(h.dtype)
        real = h.lengths if isinstance(h, Ragged) else mask
        return Pooled(value, weights, _no_penalty(weights), {}, real, attends=False)


class LinearScorer(nn.Module):
    """z = h . w / sqrt(dim) + b, scaled like dot-product attention: (..., dim) to (...).

    Without the scale a wide embedding saturates the softmax in a few steps of training. A state dict of version 0.1,
    whose scorer was ``nn.Linear(dim, 1)`` without the scale, loads and gives the same logits.

    >>> scorer = LinearScorer(4)
    >>> nn.init.ones_(scorer.weight), nn.init.zeros_(scorer.bias)  # doctest: +ELLIPSIS
    (Parameter containing:...
    >>> scorer(torch.ones(2, 4))
    tensor([2., 2.], grad_fn=<AddBackward0>)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        start = nn.Linear(dim, 1)
        self.weight = nn.Parameter(start.weight.detach().squeeze(0))
        self.bias = nn.Parameter(start.bias.detach())

    @property
    def scale(self) -> float:
        """1 / sqrt(dim)."""
        return 1.0 / math.sqrt(self.dim)

    def forward(self, h: Tensor) -> Tensor:
        """Logits."""
        return h @ self.weight * self.scale + self.bias

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        old = state_dict.get(prefix + "weight")
        if old is not None and old.dim() == 2:  # a linear layer's (1, dim)
            state_dict[prefix + "weight"] = old.squeeze(0) * math.sqrt(self.dim)  # type: ignore[index]  # it is a copy
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        """The width, when printed."""
        return f"dim={self.dim}"


@register_pool("softmax", convex=True)
class SoftmaxPool(HeadedPool):
    """Attention pooling: v = sum_i alpha_i h_i, alpha = softmax(z), z = scorer(h).

    ``scorer`` maps (..., dim) to (..., 1) or (...): any module, z = h.w / sqrt(dim) + b by default. ``dropout`` acts on
    the attention weights, which are then renormalised. An empty bag gives zeros. ``heads`` and ``values``: several
    scorers, on parts of the channels ("split") or all ("shared"), see :class:`excora.pooling.heads.HeadedPool`; a
    scorer is then given as a function that makes one.

    >>> pooled = SoftmaxPool(4)(torch.randn(2, 3, 4))
    >>> pooled.value.shape, pooled.weights.shape
    (torch.Size([2, 4]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        dim: int,
        *,
        scorer: Scorer | None = None,
        dropout: float = 0.0,
        heads: int = 1,
        values: Values = "split",
    ) -> None:
        check_dropout(dropout)
        make = scorer_of(scorer, heads, lambda: LinearScorer(dim))
        super().__init__(dim, heads, values, lambda part: SoftmaxPool(part, scorer=make(), dropout=dropout))
        if self.heads is None:
            self.scorer = make()
        self.dropout = dropout

    @staticmethod
    def unscaled(dim: int, *, dropout: float = 0.0, heads: int = 1, values: Values = "split") -> SoftmaxPool:
        """With logits z = h.w + b, which learn sqrt(dim) times as fast: often better behind a trained encoder.

        >>> SoftmaxPool.unscaled(4).scorer
        Linear(in_features=4, out_features=1, bias=True)
        """
        return SoftmaxPool(dim, scorer=lambda: nn.Linear(dim, 1), dropout=dropout, heads=heads, values=values)

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag: see :class:`Pooled`."""
        self.check(h, mask)
        if self.heads is not None:
            return self.together(h, mask)
        return self._with_scores(h, mask, *scores_of(self.scorer, h, mask))

    def _with_scores(self, h: Tensor | Ragged, mask: Tensor | None, scores: tuple[Tensor, ...], scale: float) -> Pooled:
        """One head."""
        keep = attention_dropout(h, mask, self.dropout if self.training else 0.0)
        out = attend(h, scores, None, (), mask=mask, keep=keep, scale=scale)
        dtype, real = (h.values.dtype, h.lengths) if isinstance(h, Ragged) else (h.dtype, mask)
        return Pooled(out.attended.to(dtype), out.weights, _no_penalty(out.weights), {"logits": out.logits}, real)


def scores_of(scorer: nn.Module, h: Tensor | Ragged, mask: Tensor | None) -> tuple[tuple[Tensor, ...], float]:
    """Scores and scale as ``attend`` takes them: a linear scorer's weight and bias, to be fused, or else logits."""
    if is_bare(scorer):
        if type(scorer) is LinearScorer:
            return (scorer.weight, scorer.bias), scorer.scale
        if type(scorer) is nn.Linear and scorer.out_features == 1:
            bias = scorer.weight.new_zeros(1) if scorer.bias is None else scorer.bias
            return (scorer.weight.squeeze(0), bias), 1.0
    return (score(scorer, h.values if isinstance(h, Ragged) else blank_padding(h, mask)),), 1.0


class GatedScorer(nn.Module):
    """Tanh-sigmoid gated scorer: z = w.(tanh(U h) * sigmoid(V h)) + b."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.content = nn.Linear(dim, hidden)
        self.gate = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, h: Tensor) -> Tensor:
        """Logits, (..., 1)."""
        return self.out(torch.tanh(self.content(h)) * torch.sigmoid(self.gate(h)))


@register_pool("gated", convex=True)
class GatedPool(SoftmaxPool):
    """Attention pooling with a tanh-sigmoid gated scorer of ``hidden`` units, or with one for each of its ``heads``.

    >>> GatedPool(4)(torch.randn(2, 3, 4)).value.shape
    torch.Size([2, 4])
    """

    def __init__(
        self, dim: int, *, hidden: int = 128, dropout: float = 0.0, heads: int = 1, values: Values = "split"
    ) -> None:
        super().__init__(dim, scorer=lambda: GatedScorer(dim, hidden), dropout=dropout, heads=heads, values=values)


register_pool("softmax-unscaled", label="softmax, logits not scaled", convex=True, usual=False)(SoftmaxPool.unscaled)
