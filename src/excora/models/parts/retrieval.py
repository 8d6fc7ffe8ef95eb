"""The network that attends over the training rows most like a row, with their labels.

    rows ─► columns ─► metric ─► k nearest training rows ─┐
                 └───► encoder ───────────────────────────┴► bag of neighbours ─► pool ─► head ─► prediction

The rows most like a row are a homogeneous bag, and an average of their labels never leaves the labels' range: the place
where an extrapolating pool belongs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.data.dataset import Features, Index
from excora.data.table import TableSpec
from excora.encodings.columns import PARTS
from excora.errors import InputError
from excora.models.base import Network, Output
from excora.models.parts.company import Company
from excora.models.parts.decay import decay_channel, query_times
from excora.models.parts.neighbours import Excluded, Kind, Metric, RetrievalFeatures, learn_metric, nearest
from excora.models.parts.pairs import Bag, BesideShared, DistanceScorer, Head, RowEncoder, check_arguments
from excora.models.parts.ridge_start import RidgeStart
from excora.pooling import make_pool, pools

#: Standardised numbers end here: one wild cell must not decide which rows are near.
REACH = 5.0
#: Columns up to which a metric may mix them; a matrix of their square is too much beyond.
WIDE = 512


class RetrievalNetwork(Network):
    """Attention over the ``neighbours`` training rows most like a row.

    The element of neighbour i of row s, one bag a row::

        h_si = [key_s - key_i,  relu(difference_s - difference_i + W y_i + b),  y_i,  own_s]
        z_si = -||key_s - key_i||^2,      prediction = head(pool(h_s)), see RowEncoder and Head

    so that a fresh network is about kernel regression in the space of the search. ``y`` has a channel a target, and
    ``own_s``, equal in all elements of a bag, passes any pool as it is and is laid beside it: gamma and dispersion are
    of the other channels, keys and labels alike. Pools without a scorer ("mean", "gated") weigh in their own way.

    - ``context``: the number of training rows. They and their labels are part of the network, and of every file its
      weights are written to: about 5 bytes a number cell, 8 a category cell and 4 a label. **Who has the file can read
      the training rows.** Until :meth:`remember` they are zeros.
    - ``gaps``: the numeric columns that lack values in training; each is also read as a flag.
    - ``metric``: of the search, see :func:`excora.models.parts.neighbours.learn_metric`; "full" is taken as
      "diagonal" for more than :data:`WIDE` columns.
    - ``shared`` residual blocks for every row; for ``own_s`` alone ``blocks`` more, and ``bins`` of each number.
    - ``attention_dropout`` on attention weights, for pools that have one; ``options`` are those of the pool. A pool of
      elements with keys ("local-linear", "kriging") reads the key differences as such.
    - ``rerank``: neighbours are the best of more candidates by :class:`excora.models.parts.company.Company`.
    - ``residual="ridge"``: labels are what a ridge leaves of them, and its prediction is added, see
      :class:`excora.models.parts.ridge_start.RidgeStart`: prediction = f(x_s) + s head(pool(h_s)).
    - ``memory``: if above 0, the time over which a task is forgotten: age is one more key channel, see
      :mod:`excora.models.parts.decay`. Rows that are no training rows count as later than all of these.

    A row none of whose neighbours is allowed is an empty bag: it is predicted from ``own_s`` alone.

    Saving: :attr:`options` as JSON, and the state dict; ``RetrievalNetwork(spec, **options)`` takes it back.

    >>> network = RetrievalNetwork(TableSpec(targets=1, numeric=2), context=4, neighbours=3)
    >>> no = torch.zeros(4, 2, dtype=torch.bool)
    >>> rows = {"numeric": torch.randn(4, 2), "missing": no, "codes": torch.zeros(4, 0, dtype=torch.long)}
    >>> network.remember(rows, torch.randn(4, 1), Excluded(network.columns(rows)))
    >>> near = torch.tensor([[1, 2], [0, 2], [3, 0], [2, 1]])
    >>> output = network({**rows, "neighbours": near, "allowed": ~no})
    >>> output.prediction.shape, output.pooled["neighbours"].weights.shape
    (torch.Size([4, 1]), torch.Size([4, 2]))
    """

    encoder: RowEncoder
    pool: BesideShared
    context_labels: Tensor
    context_time: Tensor
    metric_weight: Tensor
    metric_mix: Tensor | None

    def __init__(
        self,
        spec: TableSpec,
        *,
        context: int,
        gaps: Sequence[int] = (),
        pool: str = "eca",
        metric: Kind = "full",
        neighbours: int = 24,
        keys: int = 32,
        values: int = 64,
        width: int = 96,
        shared: int = 0,
        blocks: int = 1,
        bins: int = 8,
        dropout: float = 0.1,
        attention_dropout: float = 0.2,
        residual: str = "none",
        rerank: bool = False,
        memory: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        sizes = {"context": context, "neighbours": neighbours, "keys": keys, "values": values, "width": width}
        sizes |= {"shared": shared, "blocks": blocks, "bins": bins}
        rates = {"dropout": dropout, "attention_dropout": attention_dropout}
        check_arguments(spec, sizes, rates, gaps, metric, residual, memory)
        columns = spec.numeric + len(gaps) + sum(n - 1 for n in spec.categories)
        near = keys + bool(memory)  # and the channel of age
        dim = near + values + spec.targets
        given = {name: tuple(x) if isinstance(x, list) else x for name, x in options.items()}  # a pair from JSON
        ways: dict[str, Any] = {"scorer": DistanceScorer(near), "keys": near}
        taken = {name: way for name, way in ways.items() if pools[pool].takes(name)}
        pooling: Any = make_pool(pool, dim, **taken, **given)
        if hasattr(pooling, "dropout"):
            pooling.dropout = attention_dropout
        parts = {"shared": shared, "numeric": spec.numeric, "bins": bins}
        self.encoder = RowEncoder(columns, width, blocks, keys, values, dropout, **parts)
        self.pool = BesideShared(pooling, width)
        self.head = Head(dim + width, width, slice(near + values, dim), dropout)
        self.label = nn.Linear(spec.targets, values)
        self.spec, self.gaps = spec, list(gaps)
        #: The arguments after ``spec``, plain values for JSON.
        named: dict[str, Any] = {"gaps": self.gaps, "pool": pool, "metric": metric, "residual": residual}
        named |= {"memory": memory, "rerank": rerank}
        self.options: dict[str, Any] = sizes | rates | named | options
        self.kind: Kind = "diagonal" if metric == "full" and columns > WIDE else metric
        self._reserve(context, columns)
        self.start = RidgeStart(columns, spec.targets) if residual == "ridge" else None
        self.company = Company(neighbours) if rerank else None
        if self.start is not None:
            self.monitored = None  # type: ignore[misc]  # head and pool are of the residual, not of the target

    def _reserve(self, context: int, columns: int) -> None:
        """Room for the training rows and the metric: what a state dict brings."""
        numeric, categories, targets = self.spec.numeric, len(self.spec.categories), self.spec.targets
        self.register_buffer("context_numeric", torch.zeros(context, numeric))
        self.register_buffer("context_missing", torch.zeros(context, numeric, dtype=torch.bool))
        self.register_buffer("context_codes", torch.zeros(context, categories, dtype=torch.long))
        self.register_buffer("context_labels", torch.zeros(context, targets))
        if self.options["memory"]:
            self.register_buffer("context_time", torch.zeros(context, dtype=torch.float64))
        self.register_buffer("metric_weight", torch.ones(columns))
        self.register_buffer("metric_mix", torch.zeros(columns, columns) if self.kind == "full" else None)

    def columns(self, x: Mapping[str, Any]) -> Tensor:
        """Rows as plain numbers, (n, columns): numbers up to +-:data:`REACH`, flags of gaps, categories one-hot.

        The latter by 1/sqrt(2), so that two categories are at distance 1; one that training has not seen is all 0.
        """
        numbers = x["numeric"].masked_fill(x["missing"], 0.0).clamp(-REACH, REACH)
        flags = x["missing"][:, self.gaps].to(numbers.dtype)
        hot = [F.one_hot(x["codes"][:, j], n)[:, 1:].to(numbers.dtype) for j, n in enumerate(self.spec.categories)]
        return torch.cat([numbers, flags, *(part * 0.5**0.5 for part in hot)], 1)

    @property
    def metric(self) -> Metric:
        """Of the search."""
        return Metric(self.metric_weight, self.metric_mix)

    def context(self, rows: Tensor) -> dict[str, Tensor]:
        """The training rows of these numbers."""
        return {name: getattr(self, f"context_{name}")[rows] for name in PARTS}

    def bag(self, x: Mapping[str, Any]) -> Bag:
        """The elements h of each row, (n, k, dim), without own_s, and own_s."""
        query, own = self.encoder(self.columns(x), self.metric)
        # A row that is a neighbour of several is encoded once, up to one difference an element.
        unique, place = torch.unique(x["neighbours"], return_inverse=True)
        columns, y = self.columns(self.context(unique)), self.context_labels[unique].to(own.dtype)
        around = self.encoder.pair(columns, self.encoder.first(columns), self.metric)
        theirs = torch.cat([around.key, around.difference - self.label(y), -y], 1)
        h = torch.cat([*query, own.new_zeros(len(own), y.shape[1])], 1).unsqueeze(1) - F.embedding(place, theirs)
        h[..., around.key.shape[1] : h.shape[2] - y.shape[1]].relu_()
        if "decay" in x:
            h = torch.cat([x["decay"].to(h.dtype).unsqueeze(2), h], 2)
        return Bag(h, own)

    def forward(self, inputs: Mapping[str, Any]) -> Output:
        """Predictions (n, targets), and what the pool did with the neighbours."""
        if not isinstance(inputs, Mapping) or "neighbours" not in inputs:
            found = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise InputError(f"the network reads rows with their neighbours, got {found}: look_up finds them")
        allowed = inputs["allowed"]
        pooled = self.pool(self.bag(inputs), None if bool(allowed.all()) else allowed)
        prediction = self.head(pooled.value)
        if self.start is not None:
            prediction = inputs["start"].to(prediction.dtype) + self.start.scale * prediction
        return Output(prediction, {"neighbours": pooled})

    @torch.no_grad()
    def begin_at_zero(self, inputs: Mapping[str, Any], *, only_try: bool = False) -> bool:  # noqa: ARG002
        """Neither the head nor the labels of the neighbours count at first."""
        if not only_try:
            for p in (self.head.outer.weight, self.head.outer.bias, self.head.label_weight):
                p.zero_()
        return True

    def element_names(self, names: list[str] | None) -> list[str]:  # noqa: ARG002  (what it weighs are rows)
        """The neighbours, nearest first."""
        return [f"neighbour {i + 1}" for i in range(min(self.options["neighbours"], len(self.context_labels)))]

    def carried(self) -> tuple[str, ...]:
        """The training rows."""
        size = sum(t.nbytes for name, t in self.named_buffers() if name.startswith("context_")) / 1e6
        return (
            f"the model carries its {len(self.context_labels)} training rows and their labels ({size:.3g} MB), in "
            "which it looks up neighbours: who has its file can read them",
        )

    @torch.no_grad()
    def keep(self, rows: Mapping[str, Any], labels: Tensor, time: Tensor | None = None) -> Tensor | None:
        """Take in the training rows and their standardised labels (context, targets), or what a ridge leaves of these.

        ``time`` (context,) is for a network with a memory. Returns what that ridge, fitted without it, predicts of each
        row; None if there is none.
        """
        expected = (len(self.context_labels), self.spec.targets)
        if labels.shape != expected or len(rows["numeric"]) != len(labels):
            raise InputError(f"labels must be of shape {expected}, one a row, got {tuple(labels.shape)}")
        if self.options["memory"]:
            if time is None or time.shape != labels.shape[:1]:
                raise InputError("a network with a memory needs the time of each training row")
            self.context_time.copy_(time - time.max())
        for name in PARTS:
            getattr(self, f"context_{name}").copy_(rows[name])
        left_out = None
        if self.start is not None:
            left_out, labels = self.start.fit(self.columns(rows), labels)
        self.context_labels.copy_(labels)
        return left_out

    @torch.no_grad()
    def remember(
        self, rows: Mapping[str, Any], labels: Tensor, excluded: Excluded, *, seed: int = 0, time: Tensor | None = None
    ) -> Tensor | None:
        """:meth:`keep` these rows, and learn the metric from them.

        The linear part of the keys becomes the principal directions of the rows in its space.
        """
        left_out = self.keep(rows, labels, time)
        x = self.columns(rows)
        self.encoder.fit(x)
        with torch.enable_grad():
            learned = learn_metric(x, self.context_labels, excluded, kind=self.kind, seed=seed)
        self.metric_weight.copy_(learned.weight)
        if self.metric_mix is not None and learned.mix is not None:
            self.metric_mix.copy_(learned.mix)
        m = self.metric(x).double()
        directions = torch.linalg.eigh((m - m.mean(0)).T @ (m - m.mean(0))).eigenvectors.flip(1)
        if self.company is not None:
            self.company.fit(self.metric(x), self.context_labels, excluded, seed=seed)
        keys = self.encoder.linear_key
        keys.zero_()[:, : len(directions)].copy_(directions[:, : keys.shape[1]])
        return left_out

    @torch.no_grad()
    def look_up(
        self,
        features: Features,
        train: Index | None = None,
        excluded: Excluded | None = None,
        left_out: Tensor | None = None,
    ) -> RetrievalFeatures:
        """``features`` of table rows with their neighbours among the training rows, in bounded memory.

        ``train``: where the training rows stand in ``features``, in the order of :meth:`remember`; they do not see what
        ``excluded`` names, and start from ``left_out``, which :meth:`keep` gave. All other rows see every training row,
        and start from the ridge.
        """
        if (train is None) != (excluded is None):
            raise InputError("train and excluded go together: a training row that sees itself learns to copy its label")
        candidate = self.metric(self.columns(self.context(torch.arange(len(self.context_labels)))))
        search = nearest if self.company is None else self.company
        n, k = len(features.sizes), min(self.options["neighbours"], len(candidate))
        found, allowed = torch.zeros(n, k, dtype=torch.long), torch.zeros(n, k, dtype=torch.bool)
        others = np.arange(n)
        start = None if self.start is None else self.start.bias.repeat(n, 1)
        if train is not None and excluded is not None:
            numbers = torch.arange(len(candidate))
            found[train], allowed[train] = search(candidate, candidate, k, excluded=excluded, numbers=numbers)
            others = np.setdiff1d(others, train)
            if start is not None and left_out is not None:
                start[train] = left_out.to(start.dtype)
        if len(others):
            parts = np.array_split(others, -(-len(others) // 4096))  # rows in memory at once
            rows = torch.cat([self.columns(features.read(part)) for part in parts])
            found[others], allowed[others] = search(self.metric(rows), candidate, k)
            if start is not None and self.start is not None:
                start[others] = self.start(rows)
        decay, memory = None, self.options["memory"]
        if memory:
            ages = (query_times(n, self.context_time, train), self.context_time[found])
            decay = decay_channel(*ages, allowed, memory=memory, dim=len(self.metric_weight))
        return RetrievalFeatures(features, found, allowed, train, start, decay)
