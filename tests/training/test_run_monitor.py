"""The monitor of a run listens to what the network names, and to predictions alone where it names nothing."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import nn

from excora.models import Network, Output
from excora.settings import Recipe
from excora.training import train
from excora.training.run_monitor import RunMonitor
from training.samples import PARTS, TINY, prepared, run


class Plain(Network):
    """The mean of a bag, then a linear layer: no part that a monitor knows."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3, 1)

    def forward(self, inputs) -> Output:
        x = inputs["elements"]
        return Output(self.out(x.mean(1) if isinstance(x, torch.Tensor) else torch.stack(
            [part.mean(0) for part in x.values.split(x.lengths.tolist())])))  # fmt: skip


class Silent(Plain):
    monitored: ClassVar[None] = None


class Elsewhere(Plain):
    monitored: ClassVar[tuple[str, str]] = ("attention", "reading")


@pytest.mark.parametrize("kind", [Plain, Silent, Elsewhere])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_network_without_those_parts_is_watched_by_its_predictions(kind, accumulate):
    data = prepared()
    network = kind()
    monitor = RunMonitor(network)
    assert (monitor.pool, monitor.head) == (None, None)
    recipe = Recipe(epochs=2, batch_size=10, accumulate=accumulate)
    training = train(network, data.features, data.target, PARTS, recipe, progress=False)
    record = training.monitor.records[-1]
    assert record["pcc"] is not None
    assert record["bags"] == len(PARTS.train)
    assert record["gamma_50"] is record["effective_elements"] is None
    assert training.verdict().name


def test_parts_that_are_there_are_listened_to():
    data = prepared()
    setup = TINY.settled("bags", 43)
    monitor = RunMonitor(data.network(setup))
    assert (monitor.pool, monitor.head) == ("network.pool", "network.head")
    record = run(data).monitor.records[-1]
    assert record["effective_elements"] > 1
    assert record["achievable_ceiling"] is not None


@pytest.mark.parametrize("moments", ["attended", "attended+spread"])
def test_a_mean_is_not_listened_to_whatever_stands_beside_it(moments):
    network = prepared().network(TINY.replace(pool="mean", moments=moments).settled("bags", 43))
    assert RunMonitor(network).pool is None
