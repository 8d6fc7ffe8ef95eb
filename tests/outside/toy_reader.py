"""A model of another package for a source of another package: lines of text by how often each letter occurs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import nn

from excora.data.dataset import Inputs
from excora.models import Model, Network, Output, register_model
from excora.options import Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReaderOptions(Options):
    """Of the model "toy-reader"."""

    letters: float = option(1.0, "What a count is multiplied by.", least=0)


class Reader(Network):
    """prediction = W (letters counts) + b."""

    monitored = None

    def __init__(self, width: int, targets: int, factor: float) -> None:
        super().__init__()
        self.out, self.factor = nn.Linear(width, targets), factor

    def forward(self, inputs: Inputs) -> Output:
        """Predictions."""
        counts: Any = inputs["counts"]
        return Output(self.out(self.factor * counts))


@register_model
class ReaderModel(Model):
    """As the registry has it."""

    name = "toy-reader"
    says = "a linear model of letters"
    reads = ("lines",)
    Options = ReaderOptions
    recipe = {"learning_rate": 0.05}  # noqa: RUF012

    def network(self, spec: Any, options: ReaderOptions, learned: Mapping[str, Any]) -> Reader:  # noqa: ARG002
        """Nothing is learned."""
        return Reader(spec.width, spec.targets, options.letters)
