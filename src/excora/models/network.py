"""The model of the application: encoder, pool, head."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Input, Inputs, TableInput
from excora.errors import InputError
from excora.models.tokens import ColumnTokens
from excora.pooling import ECAPool, GatedPool, LinearScorer, MeanPool, Pool, Pooled, SoftmaxPool
from excora.ragged import Ragged
from excora.settings import Settings


class Output(NamedTuple):
    """A forward pass: the prediction, and what a monitor and a report read."""

    prediction: Tensor  #: (n, targets), standardised scale
    pooled: Pooled


class TableEncoder(nn.Module):
    """Tokens of a row that have looked at each other: :class:`ColumnTokens`, then transformer layers."""

    def __init__(self, inputs: Inputs, settings: Settings) -> None:
        super().__init__()
        self.tokens = ColumnTokens(inputs, settings.dim)
        dim, heads, dropout = settings.dim, settings.heads, settings.dropout
        layers = [
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout, batch_first=True, norm_first=True)
            for _ in range(settings.layers)
        ]
        # A softmax does not see a bias of the keys: its gradient is rounding noise, and Adam would turn noise into
        # steps of full length. Those of queries and values repeat what the norm's and the output's bias can do.
        for layer in layers:
            layer.self_attn.in_proj_bias.requires_grad_(False)
        self.layers = nn.ModuleList(layers)

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
        self.blocks = nn.Sequential(*_hidden(inputs.width, settings.layers, settings))

    def forward(self, x: Tensor | Ragged) -> Tensor | Ragged:
        """Elements of the pool's width, in the layout they came in."""
        return Ragged(self.blocks(x.values), x.lengths) if isinstance(x, Ragged) else self.blocks(x)


def _hidden(width: int, depth: int, settings: Settings) -> list[nn.Module]:
    """``depth`` layers of width ``settings.dim`` for vectors of ``width``."""
    blocks: list[nn.Module] = []
    for before, after in itertools.pairwise([width, *[settings.dim] * depth]):
        blocks += [nn.Linear(before, after), nn.GELU(), nn.Dropout(settings.dropout)]
    return blocks


class Network(nn.Module):
    """encoder ─► pool ─► head: prediction = head(pool(encoder(x)).value)."""

    def __init__(self, encoder: nn.Module, pool: Pool, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.pool, self.head = encoder, pool, head
        #: What of its shape comes from the training rows, beyond :class:`Inputs`; plain values for JSON.
        self.learned: dict[str, Any] = {}

    def forward(self, x: Input) -> Output:
        """Predictions of a batch, and what the pool did."""
        pooled = self.pool(self.encoder(x))
        return Output(self.head(pooled.value), pooled)

    def element_names(self, columns: list[str]) -> list[str]:
        """What the pool weighs in a row of a table with these columns."""
        return columns

    def look_up(self, features: Features) -> Features:
        """New samples as it reads them: with their neighbours, for a network that has training rows to look them up."""
        return features


def make_pool(name: str, dim: int, **options: Any) -> Pool:
    """The pool of a name of :data:`excora.settings.POOLS`; the bias of its scorer is not trained.

    That bias moves all logits of a bag alike, which a softmax does not see: noise again.

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
    if isinstance(last, nn.Linear | LinearScorer):
        last.bias.requires_grad_(False)
    return pool


def build(inputs: Inputs, settings: Settings) -> Network:
    """Encoder, pool and head for these inputs, the model "pool"; :mod:`excora.models.building` has the others.

    The head is linear, after ``settings.head`` hidden layers. Its start depends on ``settings.seed`` alone, and torch's
    random state is left.

    >>> table = Inputs(targets=1, numeric=2, categories=(3,))
    >>> sum(p.numel() for p in build(table, Settings(dim=8, layers=0, pool="mean")).parameters())
    89

    The attention heads of a table's encoder must divide its width: else an :class:`InputError`.
    """
    settings = settings.settled("pool")
    if not inputs.width and settings.layers and settings.dim % settings.heads:
        raise InputError(f"heads must divide dim, got heads {settings.heads} and dim {settings.dim}")
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(settings.seed)
        if inputs.width:
            encoder: nn.Module = BagEncoder(inputs, settings)
            dim = settings.dim if settings.layers else inputs.width
        else:
            encoder, dim = TableEncoder(inputs, settings), settings.dim
        pool = make_pool(settings.pool, dim)
        if not settings.head:
            return Network(encoder, pool, nn.Linear(dim, inputs.targets))
        hidden = _hidden(dim, settings.head, settings)
        return Network(encoder, pool, nn.Sequential(*hidden, nn.Linear(settings.dim, inputs.targets)))
