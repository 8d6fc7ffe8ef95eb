"""The model "npt": attention between the rows of a table and between its columns, with labels among the columns.

    a row ──────────► tokens, its label hidden ─┐
    training rows ──► tokens, labels shown ─────┴► between rows ─► between columns ─► … ─► read by the label's token

After Kossen, Band et al., "Self-attention between datapoints" (NeurIPS 2021); see
:mod:`excora.models.parts.datapoints`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Index, Inputs, Spec
from excora.data.table import TableSpec
from excora.encodings.columns import PARTS, ColumnTokens
from excora.errors import InputError
from excora.extrapolation import Extrapolation
from excora.models.base import Model, Network, Output, Samples, register_model, seeded
from excora.models.files import check_depth
from excora.models.ft_transformer import Head
from excora.models.parts.cooccurrence import STARTS, start_from_cooccurrence
from excora.models.parts.datapoints import RowsAndColumns
from excora.models.parts.defaults import batches, epochs
from excora.models.parts.hidden_cells import HiddenCells
from excora.models.parts.readout import FORMS, ReadOut
from excora.models.pool import SCALING, SCALINGS
from excora.options import Options, option

#: Parts of the training rows: one of them looks at those of the other parts, so that no label comes back to its row.
FOLDS = 4


class NPTFeatures:
    """Prepared rows with the part that each is of, (n,); :data:`FOLDS`: of none, it may look at every row."""

    def __init__(self, features: Features, fold: Tensor) -> None:
        self.features, self.fold = features, fold
        self.sizes = features.sizes

    def read(self, index: Index) -> Inputs:
        """The rows of ``index``, and ``fold``."""
        return {**self.features.read(index), "fold": self.fold[torch.as_tensor(index, dtype=torch.long)]}


class NPTNetwork(Network):
    """A row beside ``context`` training rows, ``depth`` times: attention between rows, then between columns.

    - Training rows see each other, and a row sees them and itself, never another row of its batch: predictions do not
      depend on the batch. DIFF: in the paper all rows of a batch see each other.
    - A training row looks at those of the other :data:`FOLDS` - 1 parts only, computed without its own part: its label
      reaches it by no way. DIFF: the paper hides labels in the batch by chance.
    - The last attention between columns, where the label's token alone asks, is :class:`ReadOut`, as in the
      FT-Transformer; ``attention`` is one of its forms.
    - ``feature_dropout``: the share of cells that is hidden in training and predicted from the rest, a named loss.

    **The training rows of the context are part of the network and of its files.** Until :meth:`keep` they are zeros.

    >>> network = NPTNetwork(TableSpec(targets=1, numeric=3), context=5, dim=8, heads=2)
    >>> x = {"numeric": torch.randn(4, 3), "missing": torch.zeros(4, 3, dtype=torch.bool)}
    >>> x |= {"codes": torch.zeros(4, 0, dtype=torch.long), "fold": torch.full((4,), FOLDS)}
    >>> output = network(x)
    >>> output.prediction.shape, output.pooled["read-out"].weights.shape
    (torch.Size([4, 1]), torch.Size([4, 4]))
    """

    context_fold: Tensor
    context_labels: Tensor
    context_known: Tensor

    def __init__(
        self,
        spec: TableSpec,
        *,
        context: int,
        dim: int = 16,
        depth: int = 2,
        heads: int = 4,
        attention: Literal["softmax", "eca", "eca-paper"] = "softmax",
        dropout: float = 0.0,
        feature_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if spec.kind != "table":
            raise InputError(f"the non-parametric transformer reads rows of a table, got {spec}")
        if context < 1 or attention not in FORMS:
            raise InputError(
                f"context must be at least 1 and attention one of {', '.join(FORMS)}: {context}, {attention}"
            )
        columns, form = spec.numeric + len(spec.categories), FORMS[attention]
        self.spec = spec
        self.tokens = ColumnTokens(spec.numeric, spec.categories, dim=dim)
        self.label = nn.Linear(2 * spec.targets, dim)
        self.hidden = HiddenCells(spec, dim, feature_dropout) if feature_dropout else None
        self.encoder = RowsAndColumns(
            columns=columns + 1, dim=dim, depth=depth, heads=heads, dropout=dropout, last=False
        )
        self.pool = ReadOut(dim, heads, extrapolation=None if form is None else Extrapolation(dim, **form))
        self.head = Head(dim, spec.targets, feedforward_dropout=dropout, residual_dropout=0.0)
        self.register_buffer("context_numeric", torch.zeros(context, spec.numeric))
        self.register_buffer("context_missing", torch.zeros(context, spec.numeric, dtype=torch.bool))
        self.register_buffer("context_codes", torch.zeros(context, len(spec.categories), dtype=torch.long))
        self.register_buffer("context_labels", torch.zeros(context, spec.targets))
        self.register_buffer("context_known", torch.zeros(context, spec.targets, dtype=torch.bool))
        self.register_buffer("context_fold", torch.zeros(context, dtype=torch.long))

    @torch.no_grad()
    def keep(self, rows: Mapping[str, Any], labels: Tensor, fold: Tensor) -> None:
        """Take in the context: rows, standardised labels (context, targets), NaN where unknown, parts (context,)."""
        for name in PARTS:
            getattr(self, f"context_{name}").copy_(rows[name])
        self.context_known.copy_(~labels.isnan())
        self.context_labels.copy_(labels.nan_to_num(0.0))
        self.context_fold.copy_(fold)

    def _shown(self) -> Tensor:
        """The context as tokens with its labels, (m, 1 + columns, dim), the label's first."""
        rows = {name: getattr(self, f"context_{name}") for name in PARTS}
        labels = torch.cat([self.context_labels, self.context_known.to(self.context_labels.dtype)], 1)
        cells = self.tokens(rows)
        return torch.cat([self.label(labels.to(self.label.weight.dtype)).unsqueeze(1).to(cells.dtype), cells], 1)

    def forward(self, inputs: Mapping[str, Any]) -> Output:
        """Predictions (n, targets), what the label's token read, and in training the loss of hidden cells."""
        if not isinstance(inputs, Mapping) or "fold" not in inputs:
            found = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise InputError(f"the network reads rows and the part each is of, got {found}: look_up says it")
        cells, fold = self.tokens(inputs), inputs["fold"]
        hide = None if self.hidden is None or not self.training else self.hidden.draw(inputs)
        if hide is not None and self.hidden is not None:
            cells = self.hidden.cover(cells, hide)
        own = self.label.bias.to(cells.dtype).expand(len(cells), 1, -1)
        blocks, block = torch.unique(fold, return_inverse=True) if len(fold) else (fold.new_tensor([FOLDS]), fold)
        real = self.context_fold != blocks.unsqueeze(1)
        context = self._shown().expand(len(blocks), -1, -1, -1)
        t = self.encoder.beside(torch.cat([own, cells], 1), context, real, block)
        pooled = self.pool(t)
        losses = {}
        if hide is not None and self.hidden is not None:
            losses = {"hidden cells": self.hidden.loss(t[:, 1:], inputs, hide)}
        return Output(self.head(pooled.value), {"read-out": pooled}, losses)

    def element_names(self, names: list[str] | None) -> list[str] | None:
        """The label's token stands before those of the columns."""
        return None if names is None else ["label", *names]

    def look_up(self, features: Features) -> NPTFeatures:
        """New rows look at the whole context."""
        return NPTFeatures(features, torch.full((len(features.sizes),), FOLDS))

    def carried(self) -> tuple[str, ...]:
        """The context."""
        return (
            f"the model carries {len(self.context_labels)} training rows and their labels, which every row is compared "
            "with: who has its file can read them",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NPTOptions(Options):
    """Of the model "npt"."""

    pool: str = option("softmax", "How the label's token attends to the columns, at the end.", choices=tuple(FORMS))
    dim: int = option(16, "Width of the tokens.", least=1)
    layers: int = option(2, "Times that rows and then columns attend to each other.", least=1)
    heads: int = option(4, "Attention heads.", least=1)
    context: int = option(128, "Training rows that a row looks at, at most; the same ones for all.", least=1)
    dropout: float = option(0.1, "Dropout of the feed-forward layers, in [0, 1).", least=0, below=1)
    feature_dropout: float = option(
        0.15, "Share of cells that are hidden in training and predicted from the rest, in [0, 1).", least=0, below=1
    )
    init: str = option(
        "uniform", "How tokens of categories start: by chance, or by what occurs together.", choices=STARTS
    )
    scaling: str = option("standard", SCALING, choices=SCALINGS)


@register_model
class NPTModel(Model):
    """The non-parametric transformer as a model of the application."""

    name = "npt"
    says = "attention between the rows of a table, labels included, and between its columns"
    reads = ("table",)
    Options = NPTOptions
    recipe = {  # noqa: RUF012
        "epochs": epochs(64, 1500, 100), "batch_size": batches(64), "schedule": "cosine", "clip": 1.0,
    }  # fmt: skip

    def network(self, spec: Any, options: NPTOptions, learned: Mapping[str, Any]) -> NPTNetwork:
        """``learned["context"]``: the number of training rows in it."""
        network = NPTNetwork(
            spec,
            context=learned["context"],
            dim=options.dim,
            depth=options.layers,
            heads=options.heads,
            attention=options.pool,  # type: ignore[arg-type]
            dropout=options.dropout,
            feature_dropout=options.feature_dropout,
        )
        network.learned = dict(learned)
        return network

    def build(self, spec: Spec, samples: Samples, options: NPTOptions, *, seed: int) -> tuple[Network, Features]:
        """Rows of weight 0 or without a known label are not looked at."""
        context, fold = _context(samples, options)
        with seeded(seed):
            network = self.network(spec, options, {"context": len(context)})
            if options.init == "cooccurrence":
                codes: Any = samples.features.read(samples.train)["codes"]
                start_from_cooccurrence(network.tokens, codes)  # rows attend first, and mix the columns
        return network, _kept(network, samples, context, fold)

    def go_on(self, network: Network, spec: Spec, samples: Samples, options: NPTOptions) -> tuple[Network, Features]:
        """The weights of the trained one, with these rows to look at."""
        context, fold = _context(samples, options)
        again = self.network(spec, options, {"context": len(context)})
        kept = {name: t for name, t in network.state_dict().items() if not name.startswith("context_")}
        again.load_state_dict(kept, strict=False)
        return again, _kept(again, samples, context, fold)

    def attends(self, options: NPTOptions) -> tuple[int, int]:
        """Rows and columns by turns: two layers each time."""
        return 2 * options.layers, options.dim

    def prepares(self, options: NPTOptions) -> dict[str, Any]:
        """How numbers are scaled."""
        return {"scaling": options.scaling}

    def check_learned(self, learned: Any, spec: Any, options: NPTOptions, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """The number of rows says how much memory a network takes."""
        check_depth(options.layers, tensors)
        if not isinstance(learned, dict) or set(learned) != {"context"}:
            raise InputError(f"what an npt network learned must be context, got {learned!r}")
        if type(learned["context"]) is not int or not 1 <= learned["context"] < 2**31:
            raise InputError(f"context must be a whole number of at least 1, got {learned['context']!r}")

    def check_tensors(self, spec: Any, tensors: Mapping[str, Tensor]) -> None:
        """Training rows in a file are looked up: what is in them must be what a preparation can give."""
        broken = [name for name, t in tensors.items() if name.startswith("context_") and not t.isfinite().all()]
        codes = tensors["context_codes"]
        if bool(((codes < 0) | (codes >= torch.tensor(spec.categories, dtype=torch.long))).any()):
            broken.append("context_codes")
        if broken:
            raise InputError(f"the training rows are damaged in {', '.join(broken)}")


def _context(samples: Samples, options: NPTOptions) -> tuple[Index, Tensor]:
    """Which training rows are looked at, and the part of every sample, (n,): groups and times are never divided."""
    known = samples.train[np.isfinite(samples.target[samples.train]).any(1)]
    known = known if samples.weight is None else known[samples.weight[known] > 0]
    if not len(known):
        raise InputError("no training row has a known label and a weight above 0: there is nothing to look at")
    context = np.sort(np.random.default_rng(0).permutation(known)[: options.context])
    label = next(
        (x for x in (samples.group, samples.time, samples.origin) if x is not None), np.arange(len(samples.target))
    )
    names, unit = np.unique(label[samples.train], return_inverse=True)
    part = np.random.default_rng(1).permutation(len(names)) % FOLDS
    fold = torch.full((len(samples.target),), FOLDS)
    fold[torch.as_tensor(samples.train)] = torch.from_numpy(part[unit])
    return context, fold


def _kept(network: NPTNetwork, samples: Samples, context: Index, fold: Tensor) -> NPTFeatures:
    """The network with its context, and the samples as it reads them."""
    rows = samples.features.read(context)
    network.keep(rows, torch.from_numpy(samples.target[context]), fold[torch.as_tensor(context)])
    return NPTFeatures(samples.features, fold)
