"""The model of the application: encoder, pool, head."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from excora.data.dataset import Input, Inputs, TableInput
from excora.errors import InputError
from excora.pooling import ECAPool, GatedPool, MeanPool, Pool, Pooled, SoftmaxPool
from excora.ragged import Ragged
from excora.settings import Settings


class Output(NamedTuple):
    """A forward pass: the prediction, and what a monitor and a report read."""

    prediction: Tensor  #: (n, targets), standardised scale
    pooled: Pooled


class FeatureTokens(nn.Module):
    """One token a column: x_j w_j + b_j for a number, w_code + b_j for a category, m_j + b_j for a missing number.

    Shapes: :class:`TableInput` of n rows to (n, columns, dim).
    """

    starts: Tensor

    def __init__(self, inputs: Inputs, dim: int) -> None:
        super().__init__()
        columns = inputs.numeric + len(inputs.categories)
        bound = dim**-0.5
        self.weight = nn.Parameter(torch.empty(inputs.numeric, dim).uniform_(-bound, bound))
        self.missing = nn.Parameter(torch.empty(inputs.numeric, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(columns, dim).uniform_(-bound, bound))
        self.codes = nn.Embedding(sum(inputs.categories), dim)
        nn.init.uniform_(self.codes.weight, -bound, bound)
        starts = torch.tensor([0, *inputs.categories[:-1]] if inputs.categories else [], dtype=torch.long)
        self.register_buffer("starts", starts.cumsum(0), persistent=False)

    def forward(self, x: TableInput) -> Tensor:
        """The tokens of each row."""
        numbers = torch.where(x.missing[..., None], self.missing, x.numeric[..., None] * self.weight)
        return torch.cat([numbers, self.codes(x.codes + self.starts)], 1) + self.bias


class TableEncoder(nn.Module):
    """Tokens of a row that have looked at each other: :class:`FeatureTokens`, then transformer layers."""

    def __init__(self, inputs: Inputs, settings: Settings) -> None:
        super().__init__()
        self.tokens = FeatureTokens(inputs, settings.dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                settings.dim, settings.heads, 2 * settings.dim, settings.dropout, batch_first=True, norm_first=True
            )
            for _ in range(settings.layers)
        )

    def forward(self, x: TableInput) -> Tensor:
        """(n, columns, dim)."""
        h: Tensor = self.tokens(x)
        for layer in self.layers:
            h = layer(h)
        return h


class BagEncoder(nn.Module):
    """The same small network for every element: Linear and GELU, ``layers`` times; none for 0 layers."""

    def __init__(self, inputs: Inputs, settings: Settings) -> None:
        super().__init__()
        widths = [inputs.width, *[settings.dim] * settings.layers]
        blocks: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            blocks += [nn.Linear(before, after), nn.GELU(), nn.Dropout(settings.dropout)]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor | Ragged) -> Tensor | Ragged:
        """Elements of the pool's width, in the layout they came in."""
        return Ragged(self.blocks(x.values), x.lengths) if isinstance(x, Ragged) else self.blocks(x)


class Network(nn.Module):
    """encoder ─► pool ─► head: prediction = head(pool(encoder(x)).value)."""

    def __init__(self, encoder: nn.Module, pool: Pool, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.pool, self.head = encoder, pool, head

    def forward(self, x: Input) -> Output:
        """Predictions of a batch, and what the pool did."""
        pooled = self.pool(self.encoder(x))
        return Output(self.head(pooled.value), pooled)


def make_pool(name: str, dim: int, **options: Any) -> Pool:
    """The pool of a name of :data:`excora.settings.POOLS`; the bias of its scorer is not trained.

    That bias moves all logits of a bag alike, which a softmax does not see: its gradient is rounding noise, and Adam
    would turn noise into steps of full length.

    >>> make_pool("softmax", 4).scorer.bias.requires_grad
    False
    """
    makers: dict[str, Callable[..., Pool]] = {
        "mean": MeanPool, "softmax": SoftmaxPool, "gated": GatedPool, "eca": ECAPool, "eca-paper": ECAPool.paper,
    }  # fmt: skip
    if name not in makers:
        raise InputError(f"pool must be one of {', '.join(makers)}, got {name!r}")
    pool = makers[name](dim, **options)
    scorer = getattr(pool, "scorer", None)
    last = getattr(scorer, "out", scorer)  # a gated scorer ends in a linear layer of that name
    if isinstance(last, nn.Linear):
        last.bias.requires_grad_(False)
    return pool


def build(inputs: Inputs, settings: Settings) -> Network:
    """The network for these inputs; its start depends on ``settings.seed`` alone, and torch's random state is left.

    >>> table = Inputs(targets=1, numeric=2, categories=(3,))
    >>> sum(p.numel() for p in build(table, Settings(dim=8, layers=0, pool="mean")).parameters())
    89

    The attention heads of a table's encoder must divide its width: else an :class:`InputError`.
    """
    if not inputs.width and settings.layers and settings.dim % settings.heads:
        raise InputError(f"heads must divide dim, got heads {settings.heads} and dim {settings.dim}")
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(settings.seed)
        if inputs.width:
            encoder: nn.Module = BagEncoder(inputs, settings)
            dim = settings.dim if settings.layers else inputs.width
        else:
            encoder, dim = TableEncoder(inputs, settings), settings.dim
        return Network(encoder, make_pool(settings.pool, dim), nn.Linear(dim, inputs.targets))
