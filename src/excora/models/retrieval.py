"""The model "retrieval": attention over the training rows most like a row, with their labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from excora.data.dataset import Features, Index, Spec
from excora.errors import InputError
from excora.models.base import Model, Network, Samples, register_model, seeded
from excora.models.files import check_depth
from excora.models.parts.defaults import batches, epochs
from excora.models.parts.neighbours import Excluded, RetrievalFeatures
from excora.models.parts.older import renewed
from excora.models.parts.retrieval import RetrievalNetwork
from excora.models.pool import SCALING, SCALINGS
from excora.options import Options, option
from excora.pooling import pools


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalOptions(Options):
    """Of the model "retrieval"."""

    pool: str = option("eca", "How the neighbours of a row become one vector.", choices=pools.names)
    dim: int = option(96, "Width of a row's encoding.", least=1)
    layers: int = option(1, "Residual blocks that a row passes when it asks.", least=0)
    shared: int = option(0, "Residual blocks that a row passes as a neighbour too.", least=0)
    bins: int = option(8, "Pieces of each number that a row's own encoding reads; 0 = none.", least=0)
    neighbours: int = option(24, "Training rows that a row looks at.", least=1)
    metric: str = option(
        "diagonal",
        "How near rows are: columns weighed and mixed, weighed, as they are, or weighed by what they move.",
        choices=("full", "diagonal", "plain", "elliptical"),
    )
    residual: str = option(
        "none", "What labels are read as: themselves, or what a ridge leaves of them.", choices=("none", "ridge")
    )
    rerank: bool = option(False, "Take the neighbours of more candidates, compared by their company (slower).")
    gap: float = option(
        0.0, "Training rows at most so far apart in --time (dates: days) do not see each other.", least=0
    )
    memory: float = option(
        0.0,
        "Time (as --time; dates: days) over which what old rows say is forgotten; 0 = never.",
        least=0,
    )
    dropout: float = option(0.1, "Dropout of the encoder, in [0, 1).", least=0, below=1)
    attention_dropout: float = option(0.2, "Dropout of attention weights, in [0, 1).", least=0, below=1)
    scaling: str = option("standard", SCALING, choices=SCALINGS)


@register_model
class RetrievalModel(Model):
    """Attention over neighbours as a model of the application."""

    name = "retrieval"
    says = "attention over the training rows most like a row, and their labels"
    reads = ("table",)
    rival_for = ("table",)
    Options = RetrievalOptions
    recipe = {  # noqa: RUF012
        "epochs": epochs(32, 800, 60), "batch_size": batches(32), "schedule": "cosine", "clip": 1.0, "average": 0.99,
        "weight_decay": 1e-2, "start": "none",
    }  # fmt: skip

    def network(self, spec: Any, options: RetrievalOptions, learned: Mapping[str, Any]) -> RetrievalNetwork:
        """``learned``: ``context``, the number of training rows, and ``gaps``, columns that lack values there."""
        names: tuple[str, ...] = ("pool", "metric", "neighbours", "shared", "bins", "dropout", "attention_dropout")
        names += ("residual", "memory", "rerank")
        same = {name: getattr(options, name) for name in names}
        network = RetrievalNetwork(spec, width=options.dim, blocks=options.layers, **same, **learned)
        network.learned = dict(learned)
        return network

    def build(self, spec: Spec, samples: Samples, options: RetrievalOptions, *, seed: int) -> tuple[Network, Features]:
        """Rows of weight 0 or with an unknown label are not looked at."""
        train = _context(samples, options)
        rows: Any = samples.features.read(train)
        gaps = rows["missing"].any(0).nonzero()[:, 0].tolist()
        with seeded(seed):
            network = self.network(spec, options, {"context": len(train), "gaps": gaps})
        excluded = _excluded(network, rows, samples, train, options)
        target, time = torch.as_tensor(samples.target[train]), _time(samples, train)
        left_out = network.remember(rows, target, excluded, seed=seed, time=time)
        found = network.look_up(samples.features, train, excluded, left_out)
        if not found.allowed[torch.as_tensor(train)].any():
            raise InputError(
                f"none of the {len(train)} training rows may see another: they are duplicates, of one group, or within "
                f"the time gap of {options.gap:g}; retrieval needs rows of several groups or times"
            )
        return network, _with_copies(found, samples)

    def go_on(
        self, network: Network, spec: Spec, samples: Samples, options: RetrievalOptions
    ) -> tuple[Network, Features]:
        """The weights and the metric of the trained one, with these rows to look at."""
        train = _context(samples, options)
        again = self.network(spec, options, {"context": len(train), "gaps": network.learned["gaps"]})
        own = ("context_", "start.")  # of these rows
        kept = {name: t for name, t in network.state_dict().items() if not name.startswith(own)}
        again.load_state_dict(kept, strict=False)
        rows: Any = samples.features.read(train)
        left_out = again.keep(rows, torch.from_numpy(samples.target[train]), _time(samples, train))
        found = again.look_up(samples.features, train, _excluded(again, rows, samples, train, options), left_out)
        return again, _with_copies(found, samples)

    def prepares(self, options: RetrievalOptions) -> dict[str, Any]:
        """How numbers are scaled."""
        return {"scaling": options.scaling}

    def check_learned(
        self,
        learned: Any,
        spec: Any,  # noqa: ARG002
        options: RetrievalOptions,
        tensors: Mapping[str, Tensor],
    ) -> None:
        """Names, types and sizes: these numbers say how much memory a network takes."""
        check_depth(options.layers + options.shared, tensors)
        if not isinstance(learned, dict) or set(learned) != {"context", "gaps"}:
            raise InputError(f"what a retrieval network learned must be context and gaps, got {learned!r}")
        for name, values in learned.items():
            given = [values] if name == "context" else values
            if not isinstance(given, list) or not all(type(n) is int and 0 <= n < 2**31 for n in given):
                raise InputError(f"{name} must be whole numbers of at least 0, got {values!r}")

    def check_tensors(self, spec: Any, tensors: Mapping[str, Tensor]) -> None:
        """Training rows in a file are looked up: what is in them must be what a preparation can give."""
        rows = {name: t for name, t in tensors.items() if name.startswith(("context_", "metric_", "start."))}
        broken = [name for name, t in rows.items() if not t.isfinite().all()]
        codes = rows["context_codes"]
        if bool(((codes < 0) | (codes >= torch.tensor(spec.categories, dtype=torch.long))).any()):
            broken.append("context_codes")
        if broken:
            raise InputError(f"the training rows are damaged in {', '.join(broken)}")

    def renewed(self, options: RetrievalOptions, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002
        """Version 0.1 had gain and temperature elsewhere."""
        return renewed(tensors, scaled=False)


def _context(samples: Samples, options: RetrievalOptions) -> Index:
    """The training rows that are looked at: those that count, and whose labels are all known."""
    for name in ("gap", "memory"):
        if (given := getattr(options, name)) and samples.time is None:
            raise InputError(f"a {name} of {given:g} is a time, and there is no column of times: name it (--time)")
    train = samples.train[np.isfinite(samples.target[samples.train]).all(1)]
    return train if samples.weight is None else train[samples.weight[train] > 0]


def _time(samples: Samples, train: Index) -> Tensor | None:
    return None if samples.time is None else torch.as_tensor(np.asarray(samples.time[train], np.float64))


def _excluded(
    network: RetrievalNetwork, rows: Any, samples: Samples, train: Index, options: RetrievalOptions
) -> Excluded:
    """Whom a training row may not see."""
    apart = {"group": samples.group, "time": samples.time}
    known = {name: None if x is None else x[train] for name, x in apart.items()}
    return Excluded(network.columns(rows), **known, gap=options.gap)


def _with_copies(found: RetrievalFeatures, samples: Samples) -> RetrievalFeatures:
    """A copy sees what its original sees: never itself."""
    if samples.origin is None:
        return found
    origin = torch.from_numpy(samples.origin)
    start = None if found.start is None else found.start[origin]
    near = (found.neighbours[origin], found.allowed[origin], found.context)
    return RetrievalFeatures(samples.features, *near, start, None if found.decay is None else found.decay[origin])
