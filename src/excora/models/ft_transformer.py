"""The model "ft-transformer": that of Gorishniy et al. (2021) for tables, with softmax attention or ECA instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Inputs, Spec
from excora.data.table import TableSpec
from excora.encodings.columns import Bins, ColumnTokens, Embeddings, quantile_bins
from excora.errors import InputError
from excora.extrapolation import Extrapolation
from excora.models.base import Model, Network, Output, Samples, register_model, seeded
from excora.models.files import check_depth
from excora.models.parts.cooccurrence import STARTS, start_from_cooccurrence
from excora.models.parts.defaults import batches, epochs
from excora.models.parts.older import renewed
from excora.models.parts.readout import FORMS, ReadOut
from excora.models.parts.transformer import Block, FeedForward
from excora.models.pool import SCALING, SCALINGS
from excora.options import Options, option
from excora.reduce import Penalty


class Encoder(nn.Module):
    """Tokens of a row, CLS first, after all blocks but the last."""

    def __init__(self, tokens: ColumnTokens, blocks: list[Block]) -> None:
        super().__init__()
        self.tokens, self.blocks = tokens, nn.ModuleList(blocks)

    def forward(self, x: Inputs) -> tuple[Tensor, list[Penalty]]:
        """(n, tokens, dim), and the penalties of the blocks that have a gain."""
        t: Tensor = self.tokens(x)
        kept: list[Penalty] = []
        for number, block in enumerate(cast(Iterable[Block], self.blocks)):
            qkv = None if number else self.tokens.project(x, t, *block.attention.projection())
            t, penalty = block(t, qkv)
            kept += [] if penalty is None else [penalty]
        return t, kept


class Head(nn.Module):
    """The rest of the last block, on CLS alone, and the output: t = v + drop(feedforward(v)), W relu(LayerNorm(t)) + c.

    Shapes: (n, dim) to (n, targets).
    """

    def __init__(self, dim: int, targets: int, *, feedforward_dropout: float, residual_dropout: float) -> None:
        super().__init__()
        self.feedforward = FeedForward(dim, feedforward_dropout)
        self.dropout = nn.Dropout(residual_dropout)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, targets)

    def forward(self, value: Tensor) -> Tensor:
        """Predictions."""
        return self.out(torch.relu(self.norm(value + self.dropout(self.feedforward(value)))))


class FTTransformer(Network):
    """Columns as tokens, transformer blocks over them, a CLS token that reads the result: encoder ─► pool ─► head.

    - ``attention``: ``"softmax"``; ``"eca"``, which starts as softmax; ``"eca-paper"``, the paper's gain and its
      temperature 0.5 + sigma / sqrt(dim). ``where``: ``"last"`` puts it into the read-out, the last block, where the
      softmax makes the embedding of the row; ``"all"`` into every block.
    - ``options`` are those of :class:`excora.extrapolation.Extrapolation`: ``residual=None`` and ``temperature=None``
      switch a component off, ``scale="paper"`` takes the literal dispersion (sigma is about 8 here, so it flattens the
      attention), ``cap``, ``hidden``, ``penalty_weight``.
    - ``embeddings`` and ``bins``: of numbers, see :class:`excora.encodings.columns.ColumnTokens`.
    - ``attention_dropout`` on attention weights, ``feedforward_dropout`` after ReGLU, ``residual_dropout`` on what a
      block adds.

    With softmax, or at the start of ``"eca"``, this is ``rtdl_revisiting_models.FTTransformer`` to rounding, faster:
    the last block computes what CLS reads and nothing else, and block 0 projects columns instead of cells.

    Saving: the arguments, with ``bins=model.encoder.tokens.edges``, as JSON, and the state dict.

    >>> model = FTTransformer(TableSpec(targets=1, numeric=3), dim=16, attention="eca", heads=2)
    >>> missing, codes = torch.zeros(5, 3, dtype=torch.bool), torch.zeros(5, 0, dtype=torch.long)
    >>> output = model({"numeric": torch.randn(5, 3), "missing": missing, "codes": codes})
    >>> pooled = output.pooled["read-out"]
    >>> output.prediction.shape, pooled.weights.shape, pooled.details["gamma"].unique().tolist()
    (torch.Size([5, 1]), torch.Size([5, 4]), [1.0])
    """

    def __init__(
        self,
        spec: TableSpec,
        *,
        dim: int = 64,
        blocks: int = 2,
        heads: int = 4,
        attention: Literal["softmax", "eca", "eca-paper"] = "softmax",
        where: Literal["last", "all"] = "last",
        embeddings: Embeddings = "linear",
        bins: Bins | None = None,
        attention_dropout: float = 0.1,
        feedforward_dropout: float = 0.1,
        residual_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        rates = {"attention_dropout": attention_dropout, "residual_dropout": residual_dropout}
        later = {"feedforward_dropout": feedforward_dropout, "residual_dropout": residual_dropout}
        super().__init__()
        _check(spec, dim, blocks, heads, attention, where, rates | later, options)
        form = FORMS[attention]
        options = {name: tuple(x) if isinstance(x, list) else x for name, x in options.items()}  # a pair from JSON

        def extrapolation(number: int) -> Extrapolation | None:
            here = where == "all" or number == blocks - 1
            return Extrapolation(dim, **(form | options)) if form is not None and here else None

        tokens = ColumnTokens(spec.numeric, spec.categories, dim=dim, cls=True, embeddings=embeddings, bins=bins)
        body = [
            Block(dim, heads, first=number == 0, extrapolation=extrapolation(number), **(rates | later))
            for number in range(blocks - 1)
        ]
        self.encoder = Encoder(tokens, body)
        self.pool = ReadOut(dim, heads, first=blocks == 1, extrapolation=extrapolation(blocks - 1), **rates)
        self.head = Head(dim, spec.targets, **later)

    def forward(self, inputs: Inputs) -> Output:
        """Predictions (n, targets), and what the read-out did; its penalty is that of all blocks."""
        t, earlier = self.encoder(inputs)
        pooled = self.pool(t)
        total = sum((penalty.sum for penalty in earlier), pooled.penalty.sum)
        pooled = pooled._replace(penalty=pooled.penalty._replace(sum=total))
        return Output(self.head(pooled.value), {"read-out": pooled})

    def element_names(self, names: list[str] | None) -> list[str] | None:
        """The token that reads stands before those of the columns."""
        return None if names is None else ["CLS", *names]

    def decay_free(self) -> Iterator[nn.Parameter]:
        """What weight decay should leave alone: tokens, LayerNorms, gamma and temperature, and every bias."""
        kinds = (ColumnTokens, nn.LayerNorm, Extrapolation)
        whole = {id(p) for module in self.modules() if isinstance(module, kinds) for p in module.parameters()}
        yield from (p for name, p in self.named_parameters() if id(p) in whole or name.endswith("bias"))


def _check(
    spec: Spec,
    dim: int,
    blocks: int,
    heads: int,
    attention: str,
    where: str,
    rates: dict[str, float],
    options: dict[str, Any],
) -> None:
    if spec.kind != "table":
        raise InputError(f"the FT-Transformer reads rows of a table, got {spec}")
    for name, value in (("dim", dim), ("blocks", blocks), ("heads", heads)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    if dim % heads:
        raise InputError(f"dim must be a multiple of heads, got dim={dim} and heads={heads}")
    for name, given, allowed in (("attention", attention, tuple(FORMS)), ("where", where, ("last", "all"))):
        if given not in allowed:
            raise InputError(f"{name} must be one of {', '.join(allowed)}, got {given!r}")
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise InputError(f"{name} must be in [0, 1), got {rate}")
    if attention == "softmax" and options:
        raise InputError(f"softmax attention has no {', '.join(options)}: they go with attention='eca' or 'eca-paper'")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FTTransformerOptions(Options):
    """Of the model "ft-transformer"."""

    pool: str = option("eca", "How CLS attends to the columns, in the last block.", choices=tuple(FORMS))
    dim: int = option(64, "Width of the tokens.", least=1)
    layers: int = option(2, "Transformer blocks; 0 is taken as 1.", least=0)
    heads: int = option(4, "Attention heads over the columns.", least=1)
    dropout: float = option(0.1, "Dropout after the gated feed-forward layers, in [0, 1).", least=0, below=1)
    attention_dropout: float = option(0.1, "Dropout of attention weights, in [0, 1).", least=0, below=1)
    embeddings: str = option("linear", "How numbers are embedded.", choices=("linear", "piecewise", "periodic"))
    init: str = option(
        "uniform", "How tokens of categories start: by chance, or by what occurs together.", choices=STARTS
    )
    scaling: str = option("standard", SCALING, choices=SCALINGS)


@register_model
class FTTransformerModel(Model):
    """The FT-Transformer as a model of the application."""

    name = "ft-transformer"
    says = "attention over the columns of a table, read by a CLS token"
    reads = ("table",)
    rival_for = ("table",)
    default_for = ("table",)  # after one that needs no training
    Options = FTTransformerOptions
    recipe = {"epochs": epochs(64, 2000, 100), "batch_size": batches(64)}  # noqa: RUF012

    def network(self, spec: Any, options: FTTransformerOptions, learned: Mapping[str, Any]) -> FTTransformer:
        """``learned["bins"]``: the edges of piecewise embeddings, or how many each column has."""
        bins = learned.get("bins")
        network = FTTransformer(
            spec,
            dim=options.dim,
            blocks=max(options.layers, 1),
            heads=options.heads,
            attention=cast(Any, options.pool),
            embeddings=cast(Any, options.embeddings),
            bins=bins,
            attention_dropout=options.attention_dropout,
            feedforward_dropout=options.dropout,
        )
        if bins is not None:
            network.learned = {"bins": [edges if isinstance(edges, int) else len(edges) for edges in bins]}
        return network

    def build(
        self, spec: Spec, samples: Samples, options: FTTransformerOptions, *, seed: int
    ) -> tuple[Network, Features]:
        """Edges of piecewise embeddings are quantiles of the training rows; so is what occurs together of them."""
        learned = {}
        if options.embeddings == "piecewise":
            rows: Any = samples.features.read(samples.train)
            learned = {"bins": quantile_bins(rows["numeric"], rows["missing"])}
        with seeded(seed):
            network = self.network(spec, options, learned)
            if options.init == "cooccurrence":
                codes: Any = samples.features.read(samples.train)["codes"]
                first: Any = network.encoder.blocks[0] if len(network.encoder.blocks) else network.pool
                start_from_cooccurrence(network.encoder.tokens, codes, first.attention)
        return network, samples.features

    def attends(self, options: FTTransformerOptions) -> tuple[int, int]:
        """Its blocks."""
        return max(options.layers, 1), options.dim

    def prepares(self, options: FTTransformerOptions) -> dict[str, Any]:
        """How numbers are scaled."""
        return {"scaling": options.scaling}

    def check_learned(
        self, learned: Any, spec: Any, options: FTTransformerOptions, tensors: Mapping[str, Tensor]
    ) -> None:
        """Numbers of edges for each column, where the embeddings have them."""
        check_depth(options.layers, tensors)
        if options.embeddings != "piecewise":
            super().check_learned(learned, spec, options, tensors)
            return
        bins = learned.get("bins") if isinstance(learned, dict) and set(learned) == {"bins"} else None
        whole = isinstance(bins, list) and all(type(n) is int and 3 <= n < 2**31 for n in bins)
        if not whole or len(cast(list[int], bins)) != spec.numeric:
            raise InputError(f"bins must be 3 edges or more for each of {spec.numeric} columns, got {learned!r}")
        room, most = sum(t.numel() for t in tensors.values()), max(cast(list[int], bins), default=1)
        if spec.numeric * options.dim * (most - 1) > room:
            raise InputError(f"bins of {most} edges need more than the {room} numbers in the file")

    def renewed(self, options: FTTransformerOptions, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002
        """Version 0.1 had gain and temperature elsewhere."""
        return renewed(tensors, scaled=False)
