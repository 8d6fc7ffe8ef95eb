"""Parts of a transformer over tokens: attention with one gain and temperature a sample, gated feed-forward, block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from excora.extrapolation import Extrapolation, extrapolate, sharpness
from excora.functional import full_precision
from excora.reduce import Penalty
from excora.visibility import Visibility, value_statistics

_TILE = 1 << 18  # numbers in a tile of attention weights: 1 MB, which stays in the cache


def statistics(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (n, dim) and dispersion (n,) of value vectors (n, tokens, dim), in float32 or better.

    >>> statistics(torch.tensor([[[-1.0], [1.0]]]))
    (tensor([[0.]]), tensor([1.]))
    """
    found = value_statistics(values.unsqueeze(1), Visibility(None, None, None, False), 1)
    return found.mean[:, 0, 0], found.dispersion[:, 0, 0]


class Attention(nn.Module):
    """Multi-head attention: q, k and v from one matrix ``inner``; ``outer`` mixes the heads if there are several.

    ``extrapolation``: m + gamma (a - m) in place of each head's a, logits over tau, one gain and temperature a sample
    from mean and dispersion of the value vectors, all heads together.
    """

    def __init__(self, dim: int, heads: int, dropout: float, extrapolation: Extrapolation | None) -> None:
        super().__init__()
        self.heads, self.dropout, self.extrapolation = heads, dropout, extrapolation
        self.inner = nn.Linear(dim, 3 * dim)
        self.outer = nn.Linear(dim, dim) if heads > 1 else nn.Identity()
        for layer in (self.inner, self.outer):
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)

    def projection(self) -> tuple[Tensor, Tensor]:
        """Weight (3 dim, dim) and bias (3 dim,) of ``inner``; no gradient reaches the keys' bias.

        It moves all logits of a query alike, which a softmax does not see: its gradient is nothing but rounding, and
        Adam would make steps of full length of it.
        """
        q, k, v = self.inner.bias.chunk(3)
        return self.inner.weight, torch.cat([q, k.detach(), v])

    def forward(self, qkv: Tensor) -> tuple[Tensor, Penalty | None]:
        """Every token attends to every token: ``inner``'s (n, tokens, 3 dim) to (n, tokens, dim), and the penalty."""
        q, k, v = qkv.chunk(3, -1)
        dropout = self.dropout if self.training else 0.0
        ours = self.extrapolation
        if ours is None:
            return self.outer(attend(q, k, v, self.heads, dropout)), None
        mean, sigma = statistics(v)
        gamma = ours.gamma(mean)
        if ours.temperature is not None:
            q = (q * sharpness(ours.tau(sigma)).view(-1, 1, 1)).to(q.dtype)
        attended = attend(q, k, v, self.heads, dropout)
        mixed = extrapolate(mean.unsqueeze(1), attended, gamma.view(-1, 1, 1))
        return self.outer(mixed.to(attended.dtype)), ours.penalty(gamma)


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int, dropout: float) -> Tensor:
    """softmax(q k / sqrt(head dim)) v, head by head, with dropout on the weights; (n, tokens, dim) all four.

    >>> attend(*torch.randn(3, 2, 5, 8), heads=2, dropout=0.0).shape
    torch.Size([2, 5, 8])
    """
    if dropout and q.device.type == "cpu":
        return _DropoutAttention.apply(q, k, v, heads, dropout)
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout).transpose(1, 2).flatten(2)


def kept(shape: tuple[int, ...], p: float, device: torch.device) -> tuple[Tensor, float]:
    """What dropout leaves, 1 or 0 as uint8, and the factor for it: p to 16 bits, four decisions a random number.

    The generator is what dropout costs on a CPU: torch draws a number for each element.

    >>> keep, factor = kept((3, 5), 0.5, torch.device("cpu"))
    >>> keep.shape, factor
    (torch.Size([3, 5]), 2.0)
    """
    count, level = math.prod(shape), min(round(p * 65536), 65535)
    bits = torch.empty(-(-count // 4), dtype=torch.int64, device=device).random_(-(2**63), None).view(torch.int16)
    return (bits[:count] >= level - 32768).view(torch.uint8).view(shape), 65536 / (65536 - level)


class _DropoutAttention(torch.autograd.Function):
    """:func:`attend` with dropout on a CPU, where torch's fused kernel has none; the weights exist a tile at a time."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, heads: int, dropout: float) -> Tensor:
        n, tokens, _ = q.shape
        keep, ctx.factor = kept((n, heads, tokens, tokens), dropout, q.device)
        ctx.save_for_backward(q, k, v, keep)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        with full_precision(q.device):
            for o, *given in _tiles(heads, out, q, k, v, keep):
                queries, keys, values, stay = (x.flatten(0, 1) for x in given)
                weights = torch.softmax(torch.bmm(queries * _root(queries), keys.mT), -1).mul_(stay)
                o.copy_(torch.bmm(weights, values).mul_(ctx.factor).view(o.shape))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, keep = ctx.saved_tensors
        out = tuple(torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(3))
        for dq, dk, dv, *given in _tiles(keep.shape[1], *out, q, k, v, grad, keep):
            queries, keys, values, g, stay = (x.flatten(0, 1) for x in given)
            queries, g = queries * _root(queries), g * ctx.factor
            weights = torch.softmax(torch.bmm(queries, keys.mT), -1)
            slope = torch.bmm(g, values.mT).mul_(stay)
            slope = torch._softmax_backward_data(slope, weights, -1, weights.dtype)
            dv.copy_(torch.bmm(weights.mul_(stay).mT, g).view(dv.shape))
            dq.copy_(torch.bmm(slope, keys).mul_(_root(queries)).view(dq.shape))
            dk.copy_(torch.bmm(slope.mT, queries).view(dk.shape))
        return *out, None, None


def _root(x: Tensor) -> float:
    return x.shape[-1] ** -0.5


def _tiles(heads: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A few samples at a time, (samples, heads, tokens, …): of (n, tokens, dim) tensors, and last the weights' mask."""
    step = max(_TILE // max(tensors[-1][:1].numel(), 1), 1)
    parts = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in tensors[:-1]]
    return zip(*(x.split(step) for x in (*parts, tensors[-1])), strict=True)


class FeedForward(nn.Module):
    """W_2 drop(a * relu(b)) with (a, b) = W_1 LayerNorm(t): ReGLU of width int(4/3 dim); (..., dim) to (..., dim).

    >>> FeedForward(6, 0.0)(torch.randn(2, 5, 6)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.hidden, self.dropout = int(dim * (4 / 3)), dropout
        self.norm = nn.LayerNorm(dim)
        self.first = nn.Linear(dim, 2 * self.hidden)
        self.second = nn.Linear(self.hidden, dim)

    def forward(self, t: Tensor) -> Tensor:
        """What is to be added to the tokens."""
        extra = -self.hidden % 16  # zeros up to a multiple of 16: products of width 341 run at two thirds of the speed
        weight = F.pad(self.first.weight.unflatten(0, (2, -1)), (0, 0, 0, extra)).flatten(0, 1)
        bias = F.pad(self.first.bias.view(2, -1), (0, extra)).flatten()
        h = F.linear(self.norm(t), weight, bias)
        second, keep = F.pad(self.second.weight, (0, extra)), None
        if self.training and self.dropout:
            keep, factor = kept((*h.shape[:-1], h.shape[-1] // 2), self.dropout, h.device)
            second = second * factor  # smaller than what it scales
        return F.linear(_Gate.apply(h, keep), second, self.second.bias)


class _Gate(torch.autograd.Function):
    """a * relu(b) of (a, b) side by side, (..., 2 hidden) to (..., hidden), times ``keep`` where given."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, keep: Tensor | None) -> Tensor:
        ctx.save_for_backward(h, keep)
        a, b = h.chunk(2, -1)
        out = torch.relu(b).mul_(a)
        return out if keep is None else out.mul_(keep)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        h, keep = ctx.saved_tensors
        grad = grad if keep is None else grad * keep
        out = torch.empty_like(h)
        (a, b), (grad_a, grad_b) = h.chunk(2, -1), out.chunk(2, -1)
        torch.mul(grad, torch.relu(b), out=grad_a)
        torch.mul(grad, a, out=grad_b)
        torch.ops.aten.threshold_backward.grad_input(grad_b, b, 0, grad_input=grad_b)
        return out, None


class Block(nn.Module):
    """t + drop(attention(norm(t))), then t + drop(feedforward(t)); the ``first`` block of a model has no first norm."""

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        first: bool,
        attention_dropout: float,
        feedforward_dropout: float,
        residual_dropout: float,
        extrapolation: Extrapolation | None,
    ) -> None:
        super().__init__()
        self.norm = nn.Identity() if first else nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, attention_dropout, extrapolation)
        self.feedforward = FeedForward(dim, feedforward_dropout)
        self.dropout = nn.Dropout(residual_dropout)

    def forward(self, t: Tensor, qkv: Tensor | None = None) -> tuple[Tensor, Penalty | None]:
        """Tokens (n, tokens, dim) to the same, and the penalty of gamma; ``qkv`` where it is known already."""
        mixed, penalty = self.attention(F.linear(self.norm(t), *self.attention.projection()) if qkv is None else qkv)
        t = t + self.dropout(mixed)
        return t + self.dropout(self.feedforward(t)), penalty
