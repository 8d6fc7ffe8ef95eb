"""The pools that stay inside the convex hull of a bag: mean, softmax attention, gated attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, element_count, masked_softmax
from excora.fused import attend
from excora.pooling.base import Pool, Pooled, attention_dropout, score
from excora.ragged import Ragged
from excora.reduce import Penalty


def _no_penalty(value: Tensor) -> Penalty:
    return Penalty(value.new_zeros(()), value.new_zeros(()))


def constant_temperature(spread: Tensor) -> Tensor:
    """tau = 1 whatever the spread: plain softmax."""
    return torch.ones_like(spread)


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
            real = blank_padding(at_least_float32(h), mask)
            count = element_count(real, mask, h.shape[1])
            weights = (real.new_ones(h.shape[:2]) if mask is None else mask.to(real.dtype)) / count
            value = (real.sum(1) / count).to(h.dtype)
        return Pooled(value, weights, _no_penalty(weights), {})


class SoftmaxPool(Pool):
    """Attention pooling: v = sum_i alpha_i h_i, alpha = softmax(z), z = scorer(h).

    ``scorer`` maps (..., dim) to (..., 1) or (...): any module, a linear one by default. ``dropout`` acts on the
    attention weights, which are then renormalised. An empty bag gives zeros.

    >>> pooled = SoftmaxPool(4)(torch.randn(2, 3, 4))
    >>> pooled.value.shape, pooled.weights.shape
    (torch.Size([2, 4]), torch.Size([2, 3]))
    """

    def __init__(self, dim: int, *, scorer: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__(dim)
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout must be in [0, 1), got {dropout}")
        self.scorer = nn.Linear(dim, 1) if scorer is None else scorer
        self.dropout = dropout

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag: see :class:`Pooled`."""
        self.check(h, mask)
        keep = attention_dropout(h, mask, self.dropout if self.training else 0.0)
        if isinstance(h, Ragged):
            out = attend(h, scores_of(self.scorer, h.values), constant_temperature, (), keep=keep)
            value, weights, logits = out.attended.to(h.values.dtype), out.weights, out.logits
        else:
            real = blank_padding(h, mask)
            logits = score(self.scorer, real)
            weights = masked_softmax(logits, mask if keep is None else keep if mask is None else keep & mask)
            value = torch.bmm(weights.to(h.dtype).unsqueeze(1), real).squeeze(1).to(h.dtype)
        return Pooled(value, weights, _no_penalty(weights), {"logits": logits})


def scores_of(scorer: nn.Module, h: Tensor) -> tuple[Tensor, ...]:
    """What :func:`excora.fused.attend` takes: a linear scorer's weight and bias, to be fused, or any other's logits."""
    hooks = (getattr(scorer, f"_{kind}_hooks") for kind in ("forward", "forward_pre", "backward", "backward_pre"))
    untouched = "forward" not in vars(scorer) and not any(hooks)
    if type(scorer) is nn.Linear and scorer.out_features == 1 and untouched:
        bias = scorer.weight.new_zeros(()) if scorer.bias is None else scorer.bias.squeeze(0)
        return scorer.weight.squeeze(0), bias
    return (score(scorer, h),)


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


class GatedPool(SoftmaxPool):
    """Attention pooling with a tanh-sigmoid gated scorer of ``hidden`` units.

    >>> GatedPool(4)(torch.randn(2, 3, 4)).value.shape
    torch.Size([2, 4])
    """

    def __init__(self, dim: int, *, hidden: int = 128, dropout: float = 0.0) -> None:
        super().__init__(dim, scorer=GatedScorer(dim, hidden), dropout=dropout)
