"""A model of another package, in one file: no pool, options and a recipe of its own, and a second, named loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs
from excora.data.table import TableSpec
from excora.models import Model, Network, Output, register_model
from excora.models.files import check_depth
from excora.options import Options, option
from excora.reduce import Penalty


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyOptions(Options):
    """Of the model "toy-model"."""

    width: int = option(12, "Width of the hidden layers.", least=1)
    depth: int = option(1, "Hidden layers.", least=1)
    activation: str = option("tanh", "Between the layers.", choices=("tanh", "gelu"))
    rebuilding: float = option(0.1, "Weight of the loss of rebuilding the numbers of a row.", least=0)
    dropout: float = option(0.0, "Dropout of the hidden layers, in [0, 1).", least=0, below=1)


class ToyNetwork(Network):
    """A row to a hidden layer, and from there to the targets and back to its numbers."""

    monitored = None

    def __init__(self, spec: TableSpec, options: ToyOptions) -> None:
        super().__init__()
        self.categories, self.weight = spec.categories, options.rebuilding
        wide = 2 * spec.numeric + sum(spec.categories)
        activation = {"tanh": nn.Tanh, "gelu": nn.GELU}[options.activation]
        body: list[nn.Module] = []
        for number in range(options.depth):
            body += [nn.Linear(options.width if number else wide, options.width), activation()]
            body += [nn.Dropout(options.dropout)]
        self.body = nn.Sequential(*body)
        self.out, self.back = nn.Linear(options.width, spec.targets), nn.Linear(options.width, spec.numeric)

    def forward(self, inputs: Inputs) -> Output:
        """Predictions, and the error of rebuilding."""
        x: Any = inputs
        codes = [nn.functional.one_hot(x["codes"][:, j], n) for j, n in enumerate(self.categories)]
        row = torch.cat([x["numeric"], x["missing"], *codes], 1).to(x["numeric"].dtype)
        hidden = self.body(row)
        error = (self.back(hidden).float() - x["numeric"]).square().sum()
        count = torch.tensor(float(x["numeric"].numel()))
        return Output(self.out(hidden), losses={"rebuilding": Penalty(self.weight * error, count.to(error.device))})


@register_model
class ToyModel(Model):
    """As the registry has it."""

    name = "toy-model"
    says = "a hidden layer that also rebuilds the row"
    reads = ("table",)
    Options = ToyOptions
    recipe = {"epochs": 30, "learning_rate": 3e-3}  # noqa: RUF012

    def network(self, spec: Any, options: ToyOptions, learned: Mapping[str, Any]) -> ToyNetwork:  # noqa: ARG002
        """Nothing is learned."""
        return ToyNetwork(spec, options)

    def check_learned(self, learned: Any, spec: Any, options: ToyOptions, tensors: Mapping[str, Tensor]) -> None:
        """Nothing is."""
        super().check_learned(learned, spec, options, tensors)
        check_depth(options.depth, tensors)
