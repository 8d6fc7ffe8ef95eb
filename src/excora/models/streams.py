"""The model "streams": of each modality an encoder and a pool, side by side, and one head; plain, for clips."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs, Spec
from excora.data.modalities import ModalitySpec
from excora.errors import InputError
from excora.models.base import Model, Network, Output, register_model
from excora.models.files import check_depth
from excora.models.pool import hidden_layers
from excora.options import Options, option
from excora.pooling import make_pool, pools
from excora.ragged import Ragged


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamsOptions(Options):
    """Of the model "streams"."""

    pool: str = option("eca", "How the steps of a modality become one vector.", choices=pools.names)
    dim: int = option(64, "Width of the steps after the encoder.", least=1)
    layers: int = option(1, "Depth of the encoder of each modality; 0 = none, for good features.", least=0)
    head: int = option(0, "Hidden layers of the head; 0 = linear.", least=0)
    dropout: float = option(0.0, "Dropout of encoders and head, in [0, 1).", least=0, below=1)


def real_steps(x: Tensor, length: Tensor) -> Ragged:
    """Padded sequences (n, steps, width) without their padding.

    >>> real_steps(torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]]), torch.tensor([1, 2])).values.flatten().tolist()
    [1.0, 2.0, 3.0]
    """
    real = torch.arange(x.shape[1], device=x.device) < length.unsqueeze(1)
    return Ragged(x[real], length)


class StreamsNetwork(Network):
    """prediction = head([pool_m(encoder_m(x_m)).value for each modality m])."""

    monitored = None  # the head reads several pools at once

    def __init__(self, spec: ModalitySpec, options: StreamsOptions) -> None:
        super().__init__()
        encoders, made, width = {}, {}, 0
        for one in spec.modalities:
            encoders[one.name] = nn.Sequential(*hidden_layers(one.width, options.layers, options))
            made[one.name] = make_pool(options.pool, options.dim if options.layers else one.width)
            width += made[one.name].width
        self.names, self.encoders = spec.names, nn.ModuleDict(encoders)
        self.pool = made[self.names[0]]  #: of the first modality
        self.others = nn.ModuleDict({name: made[name] for name in self.names[1:]})
        hidden = hidden_layers(width, options.head, options)
        last = nn.Linear(options.dim if hidden else width, spec.targets)
        self.head = nn.Sequential(*hidden, last) if hidden else last

    def forward(self, inputs: Inputs) -> Output:
        """Predictions of a batch, and what each pool did, by modality."""
        pooled = {}
        for name in self.names:
            steps = real_steps(cast(Tensor, inputs[name]), cast(Tensor, inputs[f"{name}_length"]))
            pool = self.pool if name == self.names[0] else self.others[name]
            pooled[name] = pool(Ragged(self.encoders[name](steps.values), steps.lengths))
        return Output(self.head(torch.cat([one.value for one in pooled.values()], 1)), pooled)


class OneStream(StreamsNetwork):
    """Of one modality alone: the head reads one pool, so that the monitor can listen to both."""

    monitored = ("pool", "head")


@register_model
class StreamsModel(Model):
    """Plain, and what fusion is to be compared with; ``--drop`` leaves modalities out."""

    name = "streams"
    says = "for clips: an encoder and a pool of your choice for each modality, side by side, and a head"
    reads = ("modalities",)
    default_for = ("modalities",)
    Options = StreamsOptions
    recipe = {"fewest": 8}  # noqa: RUF012

    def network(self, spec: Any, options: StreamsOptions, learned: Mapping[str, Any]) -> StreamsNetwork:  # noqa: ARG002
        """One pool a modality."""
        return (OneStream if len(spec.modalities) == 1 else StreamsNetwork)(spec, options)

    def check(self, spec: Spec, options: StreamsOptions) -> None:
        """Features of every modality that is there."""
        super().check(spec, options)
        if any(one.ids for one in cast(ModalitySpec, spec).modalities):
            raise InputError("streams reads features of the text, got token ids")

    def check_learned(self, learned: Any, spec: Spec, options: StreamsOptions, tensors: Mapping[str, Tensor]) -> None:
        """Nothing is learned; no more layers than tensors."""
        super().check_learned(learned, spec, options, tensors)
        check_depth(options.layers + options.head, tensors)
