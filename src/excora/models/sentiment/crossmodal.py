"""The transformer of MulT and DLF: one sequence, or one sequence that looks at another, up to the same moment."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.models.sentiment.parts import Look, Sequence


def sinusoids(steps: int, dim: int, like: Tensor) -> Tensor:
    """(steps, dim): [sin(p f_k), cos(p f_k)] with p = 1, 2, ... and f_k = 10000^(-k / (half - 1)), k < half = dim / 2.

    >>> sinusoids(1, 4, torch.zeros(())).round(decimals=4).tolist()
    [[0.8414999842643738, 9.999999747378752e-05, 0.5403000116348267, 1.0]]
    """
    half = dim // 2
    frequency = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000) / max(half - 1, 1)))
    angle = torch.arange(1, steps + 1, dtype=torch.float64).unsqueeze(1) * frequency
    return F.pad(torch.cat([angle.sin(), angle.cos()], 1), (0, dim - 2 * half)).to(like)


def up_to_now(queries: Sequence, keys: Sequence) -> Tensor:
    """(n or 1, 1, queries, keys), True where key j may be seen by query i: j <= i + |L_keys - L_queries|, j real.

    The lengths are the real ones of a sample, so that padding does not move the diagonal.
    """
    i, j = (torch.arange(x.values.shape[1], device=x.values.device) for x in (queries, keys))
    gap = (keys.length - queries.length).abs().view(-1, 1, 1, 1)
    seen = (j <= i.unsqueeze(1) + gap) & (j < keys.length.view(-1, 1, 1, 1))
    alike = len(seen) > 1 and bool((queries.length == queries.length[0]).all() & (keys.length == keys.length[0]).all())
    return seen[:1] if alike else seen


class Attention(nn.Module):
    """Multi-head attention; q, k and v from one matrix ``inner``, whose bias of the keys no softmax sees."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout, self.look = heads, dropout, Look()
        self.inner, self.outer = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None) -> Tensor:
        """x (n, queries, dim) looks at ``other`` (n, keys, dim) where ``mask`` allows; None: up to the same step."""
        dim = x.shape[2]
        weight, (bias_q, _, bias_v) = self.inner.weight, self.inner.bias.chunk(3)
        q = F.linear(x, weight[:dim], bias_q)
        k, v = F.linear(other, weight[dim : 2 * dim]), F.linear(other, weight[2 * dim :], bias_v)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        found = self.look(q, k, v, mask, dropout, causal=mask is None)
        return self.outer(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """x + A(LN x, LN other), then x + W_2 relu(W_1 LN x); one LayerNorm for queries, keys and values."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, dropout)
        self.norm, self.norm_forward = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.first, self.second = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, other: Tensor | None, mask: Tensor | None) -> Tensor:
        """(n, steps, dim); ``other`` None: itself."""
        normed = self.norm(x)
        x = x + self.attention(normed, normed if other is None else self.norm(other), mask)
        return x + self.second(torch.relu(self.first(self.norm_forward(x))))


class Encoder(nn.Module):
    """Layers over sqrt(dim) x + positions, then LayerNorm. ``other``: what is looked at, the same in every layer."""

    def __init__(
        self, dim: int, heads: int, layers: int, *, attention_dropout: float, embedding_dropout: float, positions: str
    ) -> None:
        super().__init__()
        self.dim, self.positions = dim, positions
        self.dropout = nn.Dropout(embedding_dropout)
        self.layers = nn.ModuleList([Layer(dim, heads, attention_dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)

    def embedded(self, x: Tensor) -> Tensor:
        """``positions``: "all"; "published", where a step whose first channel is 0 has none; "none"."""
        scaled = math.sqrt(self.dim) * x
        if self.positions != "none":
            where = sinusoids(x.shape[1], self.dim, x)
            if self.positions == "published":
                where = where * (x[..., :1] != 0)
            scaled = scaled + where
        return self.dropout(scaled)

    def forward(self, x: Sequence, other: Sequence | None = None) -> Sequence:
        """x with what it has seen."""
        # Itself: up to each step, where what stands behind the end is never seen by what is real.
        mask = None if other is None else up_to_now(x, other)
        seen = None if other is None else self.embedded(other.values)
        found = self.embedded(x.values)
        for layer in self.layers:
            found = layer(found, seen, mask)
        return x._replace(values=self.norm(found))


class Convolution(nn.Conv1d):
    """A convolution over the steps without padding or bias: (n, steps, width) to (n, steps - kernel + 1, dim).

    A sample shorter than the kernel has one step, over zeros behind its end.
    """

    def __init__(self, width: int, dim: int, kernel: int) -> None:
        super().__init__(width, dim, kernel, bias=False)

    def over(self, sequence: Sequence) -> Sequence:
        """The convolved sequence, zeros behind its end."""
        kernel = self.kernel_size[0]
        short = max(kernel - sequence.values.shape[1], 0)
        values = self(F.pad(sequence.values, (0, 0, 0, short)).mT).mT
        found = Sequence(values, (sequence.length - kernel + 1).clamp_min(1))
        return found._replace(values=found.values.masked_fill(~found.mask.unsqueeze(2), 0.0))


class Residual(nn.Module):
    """x + W_2 drop relu(W_1 x): (n, width) to the same."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second, self.dropout = nn.Linear(width, width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """What a head reads."""
        return x + self.second(self.dropout(torch.relu(self.first(x))))
