"""The model "spots": gene expression from precomputed features of a spot's patches, its surroundings, its exemplars."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Inputs
from excora.errors import InputError
from excora.models.base import Model, Network, Output, Samples, register_model, seeded
from excora.models.files import check_depth
from excora.models.parts.exemplars import Exemplars
from excora.models.parts.spots import ExemplarAttention, carried, check_bank, check_counts, parted, without_spots
from excora.models.parts.start import LinearStart, summaries
from excora.models.parts.summary import COUNTED, Summary, parts_of
from excora.models.pool import hidden_layers
from excora.options import Options, option
from excora.pooling import Pool, Pooled, make_pool, pools


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpotsOptions(Options):
    """Of the model "spots"."""

    pool: str = option("eca", "How patches, neighbours and exemplars become one vector each.", choices=pools.names)
    sees: str = option(
        "grid", "What is read of a spot: features of its parts, or its one vector.", choices=("grid", "features")
    )
    neighbours: int = option(8, "Nearest spots of the same slide that are read too.", least=0)
    exemplars: int = option(0, "Most similar spots of other slides that are read with their expression.", least=0)
    rerank: bool = option(False, "Take the exemplars out of more candidates, compared by their company.")
    dim: int = option(64, "Width of the elements after the encoder.", least=1)
    layers: int = option(1, "Depth of the encoder; 0 = none.", least=0)
    keys: int = option(32, "Channels by which exemplars are compared.", least=1)
    dropout: float = option(0.1, "Dropout of the encoder, in [0, 1).", least=0, below=1)
    moments: str = option(
        "attended", "What the head sees of patches and neighbours: attended, and any of mean, spread, joined by +."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if counted := COUNTED & {*parts_of(self.moments)}:
            raise InputError(f"the number of patches says nothing: moments have no {', '.join(sorted(counted))} here")
        if self.rerank and not self.exemplars:
            raise InputError("rerank chooses among exemplars, and none are read: say how many (exemplars)")


class SpotsNetwork(Network):
    """[pool(patches), pool(neighbours)] ─► head, and beside it attention over what a ridge leaves of exemplars' labels.

    Each element is a feature vector and its distance from the spot. A gene is one output of the linear head; with
    ``--start ridge`` (the default of the model) the ridge of that gene on the mean of the patches and the mean of the
    neighbours is added, and the rest begins at 0.
    """

    monitored = None  # the head reads more than one pool

    def __init__(self, spec: Any, options: SpotsOptions, exemplars: int) -> None:
        super().__init__()
        width = spec.width + 1
        self.encoder = nn.Sequential(*hidden_layers(width, options.layers, options))
        width = options.dim if options.layers else width
        # One vector is its own mean.
        self.pool: Pool | Summary = make_pool("mean", width) if spec.elements == "features" else _pool(options, width)
        self.around = _pool(options, width) if spec.neighbours else None
        self.head = nn.Linear(self.pool.width + (0 if self.around is None else self.around.width), spec.targets)
        self.bank, self.count, self.exemplars = None, options.exemplars, None
        if options.exemplars:
            rerank = options.exemplars if options.rerank else 0
            self.bank = Exemplars(exemplars, spec.width, spec.targets, rerank=rerank)
            self.exemplars = ExemplarAttention(spec.width, spec.targets, options.keys, options.pool)

    def forward(self, inputs: Inputs) -> Output:
        """Predictions (n, targets), and what each pool did."""
        own, around = parted(inputs)
        pooled: dict[str, Pooled] = {"patches": self.pool(self.encoder(own.elements), own.real)}
        if self.around is not None:
            pooled["neighbours"] = self.around(self.encoder(around.elements), around.real)
        prediction = self.head(torch.cat([one.value for one in pooled.values()], 1))
        if self.exemplars is not None:
            more, pooled["exemplars"] = self.exemplars(inputs)
            prediction = prediction + more
        return Output(prediction, pooled)

    @torch.no_grad()
    def begin_at_zero(self, inputs: Inputs, *, only_try: bool = False) -> bool:  # noqa: ARG002
        """The head is 0 at first, and so is the gain of the exemplars from their start."""
        if not only_try:
            for p in self.head.parameters():
                p.zero_()
            if self.exemplars is not None:
                self.exemplars.gain.zero_()
        return True

    def look_up(self, features: Features) -> Features:
        """New spots with their exemplars."""
        return features if self.bank is None else self.bank.look_up(features, self.count)

    def carried(self) -> tuple[str, ...]:
        """The training spots, if it looks at them."""
        return () if self.bank is None else (carried(self.bank),)


def _pool(options: SpotsOptions, dim: int) -> Pool | Summary:
    pool, parts = make_pool(options.pool, dim), parts_of(options.moments)
    return Summary(pool, parts, usual=1.0) if parts else pool


@register_model
class SpotsModel(Model):
    """Pools over what is known of a spot, on a ridge."""

    name = "spots"
    says = "attention over features of a spot's patches, of its neighbours and of exemplars, on a ridge a gene"
    reads = ("spatial",)
    default_for = ("spatial",)
    Options = SpotsOptions
    recipe = {  # noqa: RUF012
        "epochs": 40, "patience": 8, "batch_size": 64, "learning_rate": 3e-4, "weight_decay": 1e-2,
        "correlation_weight": 2.0, "start": "ridge",
    }  # fmt: skip

    def network(self, spec: Any, options: SpotsOptions, learned: Mapping[str, Any]) -> SpotsNetwork:
        """``learned``: ``exemplars``, how many training spots it carries, if it looks at any."""
        network = SpotsNetwork(spec, options, learned.get("exemplars", 0))
        network.learned = dict(learned)
        return network

    def build(self, spec: Any, samples: Samples, options: SpotsOptions, *, seed: int) -> tuple[Network, Features]:
        """Exemplars are training spots, with what a ridge without their group leaves of their labels."""
        learned = {"exemplars": len(samples.train)} if options.exemplars else {}
        with seeded(seed):
            network = self.network(spec, options, learned)
        if network.bank is not None:
            network.bank.remember(left_over(spec, samples))
            network.bank.learn(seed=seed)
        return network, network.look_up(samples.features)

    def go_on(self, network: Network, spec: Any, samples: Samples, options: SpotsOptions) -> tuple[Network, Features]:
        """The weights of the trained one, with these spots to look at."""
        if not options.exemplars:
            return super().go_on(network, spec, samples, options)
        again = self.network(spec, options, {"exemplars": len(samples.train)})
        again.load_state_dict(without_spots(network.state_dict()), strict=False)
        assert again.bank is not None
        again.bank.remember(left_over(spec, samples))
        return again, again.look_up(samples.features)

    def prepares(self, options: SpotsOptions) -> dict[str, Any]:
        """Patches and neighbours, and the vector by which exemplars are found."""
        return {"elements": options.sees, "neighbours": options.neighbours, "feature": options.exemplars > 0}

    def check_learned(
        self,
        learned: Any,
        spec: Any,
        options: SpotsOptions,
        tensors: Mapping[str, Tensor],
    ) -> None:
        """The number of exemplars, where there are any."""
        check_depth(options.layers, tensors)
        if options.exemplars:
            check_counts(learned, ("exemplars",), self.name)
        else:
            super().check_learned(learned, spec, options, tensors)

    def check_tensors(self, spec: Any, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """Training spots in a file are looked at: they must be numbers."""
        check_bank(tensors)


def left_over(spec: Any, samples: Samples) -> Samples:
    """The samples with y - f(x) for labels: f the ridge that a network starts from, fitted without their group."""
    rows = samples.train
    weight, group = (None if part is None else part[rows] for part in (samples.weight, samples.group))
    y = samples.target[rows].astype(np.float64)
    found = LinearStart(spec).fit(summaries(spec, samples.features, rows), y, weight, group)
    target = np.full_like(samples.target, np.nan)
    target[rows] = y - found.left_out
    return samples._replace(target=target)
