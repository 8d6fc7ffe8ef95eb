"""The model "pool": an encoder, a pool, a head; for bags of any source's elements and for tables."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Inputs, Spec
from excora.encodings.columns import ColumnTokens
from excora.encodings.time import TimeEncoding, time_encoding
from excora.errors import InputError
from excora.models.base import Model, Network, Output, Samples, register_model, seeded
from excora.models.files import check_depth
from excora.models.parts.older import renewed
from excora.models.parts.summary import COUNTED, Summary, parts_of
from excora.options import Options, option
from excora.pooling import Pool, make_pool, pools
from excora.ragged import Ragged

#: Numbers of a table, before any model sees them.
SCALINGS = ("standard", "quantile")
SCALING = "Numbers of a table: standard = mean 0, deviation 1; quantile = normal by their ranks in training."


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolOptions(Options):
    """Of the model "pool"."""

    pool: str = option("eca", "How the elements of a sample become one vector.", choices=pools.names)
    dim: int = option(64, "Width of the elements after the encoder.", least=1)
    layers: int = option(1, "Depth of the encoder; 0 = none, for bags of good features.", least=0)
    head: int = option(0, "Hidden layers of the head; 0 = linear.", least=0)
    heads: int = option(4, "Attention heads over the columns of a table.", least=1, only="table")
    dropout: float = option(0.0, "Dropout of the encoder, in [0, 1).", least=0, below=1)
    scaling: str = option("standard", SCALING, choices=SCALINGS, only="table")
    pool_heads: int = option(1, "Heads of the pool, each with a scorer of its own.", least=1)
    pool_values: str = option(
        "split", "What a head pools: its part of the channels, or all of them.", choices=("split", "shared")
    )
    time_encoding: str = option(
        "bochner",
        "How the time of an element (--time-within) is seen; none = not at all, but for the order.",
        choices=("bochner", "mercer", "inverse-cdf", "none"),
        only="bags",
    )
    moments: str = option(
        "attended", "What the head sees: attended, and any of mean, spread, sum, size, number, joined by +."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        parts_of(self.moments)
        if self.pool_heads > 1 and not pools[self.pool].takes("heads"):
            able = ", ".join(name for name in pools if pools[name].takes("heads"))
            raise InputError(f"pool {self.pool!r} has one head, got pool_heads {self.pool_heads}: take one of {able}")


class TableEncoder(nn.Module):
    """Tokens of a row that have looked at each other: :class:`ColumnTokens`, then transformer layers."""

    def __init__(self, numeric: int, categories: tuple[int, ...], options: PoolOptions) -> None:
        super().__init__()
        dim, heads, dropout = options.dim, options.heads, options.dropout
        self.tokens = ColumnTokens(numeric, categories, dim=dim)
        layers = [
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout, batch_first=True, norm_first=True)
            for _ in range(options.layers)
        ]
        # A softmax does not see a bias of the keys: its gradient is rounding noise, and Adam would turn noise into
        # steps of full length. Those of queries and values repeat what the norm's and the output's bias can do.
        for layer in layers:
            layer.self_attn.in_proj_bias.requires_grad_(False)
        self.layers = nn.ModuleList(layers)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, columns, dim)."""
        h: Tensor = self.tokens(inputs)
        for layer in self.layers:
            h = layer(h)
        return h


class BagEncoder(nn.Module):
    """The same small network for every element: Linear and GELU, ``layers`` times; none for 0 layers.

    The feature ``time``, if there is one, is first replaced by its encoding (:mod:`excora.encodings.time`), at the end.
    """

    def __init__(self, width: int, options: PoolOptions, time: int | None = None) -> None:
        super().__init__()
        self.place = time
        self.time: TimeEncoding | None = None
        if time is not None:
            self.time = time_encoding(options.time_encoding)
            width += -1 if self.time is None else self.time.dim - 1
        self.width = options.dim if options.layers else width
        self.blocks = nn.Sequential(*hidden_layers(width, options.layers, options))

    def forward(self, inputs: Inputs) -> Tensor | Ragged:
        """Elements of the pool's width, in the layout they came in."""
        x = inputs["elements"]
        return Ragged(self._each(x.values), x.lengths) if isinstance(x, Ragged) else self._each(x)

    def _each(self, x: Tensor) -> Tensor:
        if self.place is not None:
            parts = [x[..., : self.place], x[..., self.place + 1 :]]
            if self.time is not None:
                parts.append(self.time(x[..., self.place]).to(x.dtype))
            x = torch.cat(parts, -1)
        return cast(Tensor, self.blocks(x))


def hidden_layers(width: int, depth: int, options: Any) -> list[nn.Module]:
    """``depth`` layers of width ``options.dim``, with ``options.dropout``, for vectors of ``width``."""
    blocks: list[nn.Module] = []
    for before, after in itertools.pairwise([width, *[options.dim] * depth]):
        blocks += [nn.Linear(before, after), nn.GELU(), nn.Dropout(options.dropout)]
    return blocks


class PoolNetwork(Network):
    """encoder ─► pool ─► head: prediction = head(pool(encoder(inputs)).value)."""

    def __init__(self, encoder: nn.Module, pool: Pool | Summary, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.pool, self.head = encoder, pool, head

    def forward(self, inputs: Inputs) -> Output:
        """Predictions of a batch, and what the pool did."""
        pooled = self.pool(self.encoder(inputs))
        return Output(self.head(pooled.value), {"pool": pooled})


@register_model
class PoolModel(Model):
    """Encoder, pool and head; the head is linear, after ``options.head`` hidden layers."""

    name = "pool"
    says = "an encoder, a pool of your choice, a head"
    reads = ("bags", "table")
    default_for = ("bags",)
    Options = PoolOptions

    def build(self, spec: Spec, samples: Samples, options: PoolOptions, *, seed: int) -> tuple[Network, Features]:
        """A head that sees sums or sizes sees them in units of the mean number of elements in training."""
        counted = COUNTED & {*parts_of(options.moments)}
        learned = {"elements": max(float(samples.features.sizes[samples.train].mean()), 1.0)} if counted else {}
        with seeded(seed):
            return self.network(spec, options, learned), samples.features

    def network(self, spec: Any, options: PoolOptions, learned: Mapping[str, Any]) -> PoolNetwork:
        """``learned``: ``elements``, how many there are in a training sample on average, if that matters."""
        if spec.kind == "bags":
            encoder: nn.Module = (bags := BagEncoder(spec.width, options, spec.time))
            dim = bags.width
        else:
            encoder, dim = TableEncoder(spec.numeric, spec.categories, options), options.dim
        heads = {} if options.pool_heads == 1 else {"heads": options.pool_heads, "values": options.pool_values}
        pool: Pool | Summary = make_pool(options.pool, dim, **heads)
        if parts := parts_of(options.moments):
            pool = Summary(cast(Pool, pool), parts, usual=learned.get("elements", 1.0))
        hidden = hidden_layers(pool.width, options.head, options)
        last = nn.Linear(options.dim if hidden else pool.width, spec.targets)
        network = PoolNetwork(encoder, pool, nn.Sequential(*hidden, last) if hidden else last)
        network.learned = dict(learned)
        return network

    def check(self, spec: Spec, options: PoolOptions) -> None:
        """Heads must divide the width; ranks are for tables."""
        super().check(spec, options)
        if spec.kind == "bags" and cast(Any, spec).time is not None and cast(Any, spec).width == 1:
            raise InputError("elements must have a feature beside their time")
        bare = spec.kind == "bags" and not options.layers
        dim = BagEncoder(cast(Any, spec).width, options, cast(Any, spec).time).width if bare else options.dim
        if options.pool_values == "split" and dim % options.pool_heads:
            raise InputError(
                f"pool_heads must divide the width of the elements, got {options.pool_heads} and {dim}: "
                "or let each pool all of it (pool_values shared)"
            )
        if spec.kind == "table" and options.layers and options.dim % options.heads:
            raise InputError(f"heads must divide dim, got heads {options.heads} and dim {options.dim}")

    def prepares(self, options: PoolOptions) -> dict[str, Any]:
        """How numbers of a table are scaled; elements of bags know one way, and need not be told."""
        return {} if options.scaling == "standard" else {"scaling": options.scaling}

    def check_learned(self, learned: Any, spec: Spec, options: PoolOptions, tensors: Mapping[str, Tensor]) -> None:
        """Nothing is learned but the usual number of elements, where a head sees sums or sizes."""
        if COUNTED & {*parts_of(options.moments)}:
            usual = learned.get("elements") if isinstance(learned, dict) and len(learned) == 1 else None
            if not isinstance(usual, float) or not 1.0 <= usual < 1e12:
                raise InputError(f"what a pool network learned must be elements, a mean number, got {learned!r}")
        else:
            super().check_learned(learned, spec, options, tensors)
        check_depth(options.layers + options.head + options.pool_heads - 1, tensors)

    def renewed(self, options: PoolOptions, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Version 0.1 had no scale in a linear scorer."""
        return renewed(tensors, scaled=options.pool in ("softmax", "eca"))
