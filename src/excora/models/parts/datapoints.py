"""Attention between the rows of a table and between its columns, in turn: the body of a non-parametric transformer.

    tokens (rows, columns, dim) ─► between rows (rows as vectors of columns x dim) ─► between columns ─► …

After Kossen, Band et al., "Self-attention between datapoints" (NeurIPS 2021), written from its formulas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError

#: Wider rows are attended to in so many channels. DIFF: the paper takes columns x dim, whatever it is.
WIDEST = 256


class Attending(nn.Module):
    """H = mix(A V) + R x, then H + W2 drop(gelu(W1 LayerNorm(H))): Q of LayerNorm(x), K and V of x as it is.

    A = softmax(Q K' / sqrt(inner)), head by head: by the whole width and not by that of a head, as in the paper.
    ``inner`` channels of Q, K and V; (..., n, dim) to the same.

    >>> Attending(6, 2)(torch.randn(3, 5, 6)).shape
    torch.Size([3, 5, 6])
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        widest = WIDEST - WIDEST % heads
        inner = dim if dim <= widest and not dim % heads else min(-(-dim // heads) * heads, widest)
        self.heads, self.inner = heads, inner
        self.norm, self.second_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query = nn.Linear(dim, inner)
        self.key = nn.Linear(dim, inner, bias=False)  # a bias moves all logits of a query alike: no softmax sees it
        self.value = nn.Linear(dim, inner)
        self.mix, self.residual = nn.Linear(inner, dim), nn.Linear(dim, dim)
        self.first, self.second = nn.Linear(dim, min(4 * dim, 2 * WIDEST)), nn.Linear(min(4 * dim, 2 * WIDEST), dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """All of x attend to each other; ``seen``: which keys (last axis) a query sees, of a shape (..., n or 1, n)."""
        q, k, v = self._heads(self.query(self.norm(x))), self._heads(self.key(x)), self._heads(self.value(x))
        mask = None if seen is None else seen.unsqueeze(-3)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.inner**-0.5)
        return self._rest(x, mixed.transpose(-3, -2).flatten(-2))

    def ask(self, x: Tensor, others: Tensor, seen: Tensor) -> Tensor:
        """Each row of x (n, dim) attends to itself and to those of ``others`` (m, dim) that it sees, (n, m).

        >>> layer, x, others = Attending(6, 2), torch.randn(1, 6), torch.randn(4, 6)
        >>> together = layer(torch.cat([x, others]))[:1]
        >>> torch.allclose(layer.ask(x, others, torch.ones(1, 4, dtype=torch.bool)), together, atol=1e-6)
        True
        """
        q, k, v = (self._heads(layer(y)) for layer, y in ((self.query, self.norm(x)), (self.key, x), (self.value, x)))
        keys, values = self._heads(self.key(others)), self._heads(self.value(others))  # (heads, m, channels)
        away = (q @ keys.mT).masked_fill(~seen, -torch.inf)
        weights = torch.softmax(torch.cat([away, (q * k).sum(-1, keepdim=True)], -1) * self.inner**-0.5, -1)
        mixed = weights[..., :-1].to(values.dtype) @ values + weights[..., -1:].to(v.dtype) * v
        return self._rest(x, mixed.transpose(-3, -2).flatten(-2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def _rest(self, x: Tensor, mixed: Tensor) -> Tensor:
        h: Tensor = self.mix(mixed) + self.residual(x)
        return h + self.second(self.dropout(F.gelu(self.first(self.second_norm(h)))))


class RowsAndColumns(nn.Module):
    """``depth`` times attention between rows, then between columns.

    >>> body = RowsAndColumns(columns=3, dim=4, depth=2, heads=2)
    >>> body(torch.randn(7, 5, 3, 4)).shape
    torch.Size([7, 5, 3, 4])
    """

    def __init__(
        self, *, columns: int, dim: int, depth: int, heads: int, dropout: float = 0.0, last: bool = True
    ) -> None:
        super().__init__()
        if min(columns, dim, depth, heads) < 1 or dim % heads:
            raise InputError(
                "columns, dim, depth and heads must be at least 1, and heads divide dim, got "
                f"{columns}, {dim}, {depth} and {heads}"
            )
        self.rows = nn.ModuleList(Attending(columns * dim, heads, dropout) for _ in range(depth))
        #: Without the ``last``: the columns are then left to somebody else to read.
        self.columns = nn.ModuleList(Attending(dim, heads, dropout) for _ in range(depth if last else depth - 1))

    def forward(self, t: Tensor, seen: Tensor | None = None) -> Tensor:
        """Tokens of whole tables, (tables, rows, columns, dim); ``seen`` (tables or 1, rows or 1, rows): which rows."""
        shape = t.shape[-2:]
        for number, rows in enumerate(self.rows):
            t = rows(t.flatten(-2), seen).unflatten(-1, shape)
            t = self.columns[number](t) if number < len(self.columns) else t
        return t

    def beside(self, x: Tensor, context: Tensor, real: Tensor, block: Tensor) -> Tensor:
        """Rows x (n, columns, dim), each beside a context that it sees and that does not see it: the same of x.

        ``context`` (blocks, m, columns, dim), of whose rows those of ``real`` (blocks, m) are there; row s looks at the
        context ``block[s]``. What x becomes does not depend on the other rows of x.
        """
        shape = x.shape[-2:]
        blocks = torch.arange(len(context), device=x.device)
        seen = ((block[:, None, None] == blocks[:, None]) & real).flatten(1)  # (n, blocks m)
        layers = [*cast(Iterable[Attending], self.rows)]
        for number, rows in enumerate(layers):
            flat = context.flatten(-2)
            x = rows.ask(x.flatten(-2), flat.flatten(0, 1), seen).unflatten(-1, shape)
            if number + 1 < len(layers):
                context = self.columns[number](rows(flat, real.unsqueeze(1)).unflatten(-1, shape))
            x = self.columns[number](x) if number < len(self.columns) else x
        return x


class TableReader(nn.Module):
    """The labels of the rows of whole tables: cells as tokens, rows and columns in turn, the label's token read.

    (tables, rows, features + 2), the last two channels the label and whether it is shown, to (tables, rows).

    >>> from excora.tasks.lookup import LookupTask
    >>> tables, y = LookupTask(features=3, rows=5).tables(2, seed=0)
    >>> TableReader(3)(tables).shape
    torch.Size([2, 10])
    """

    def __init__(self, features: int, *, dim: int = 16, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(features + 1, 2, dim))
        self.bias = nn.Parameter(0.5 * torch.randn(features + 1, dim))
        self.body = RowsAndColumns(columns=features + 1, dim=dim, depth=depth, heads=heads)
        self.out = nn.Linear(dim, 1)

    def forward(self, tables: Tensor, seen: Tensor | None = None) -> Tensor:
        """``seen`` as that of :class:`RowsAndColumns`."""
        cells, shown = tables[..., :-1], torch.zeros_like(tables[..., :-1])
        shown[..., -1] = tables[..., -1]
        t = torch.einsum("tnca,cad->tncd", torch.stack([cells, shown], -1), self.weight) + self.bias
        read: Tensor = self.out(self.body(t, seen)[..., -1, :])
        return read[..., 0]
