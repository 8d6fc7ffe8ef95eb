"""A training step of ``spots`` and EGN with the correlation of each of 250 genes in the loss, against MSE alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import Row, row
from excora.data.spatial import SpatialSpec
from excora.losses import JointLoss
from excora.models import Network, models
from excora.models.egn import EGN

GENES, BATCH, WIDTH = 250, 64, 1280


def spots() -> tuple[Network, dict[str, Tensor]]:
    """16 patches and 8 neighbours of EfficientNet's width."""
    model = models["spots"]
    spec = SpatialSpec(targets=GENES, width=WIDTH, neighbours=8)
    inputs = {"elements": torch.randn(BATCH, 24, WIDTH), "places": torch.rand(BATCH, 24, 2)}
    return model.network(spec, model.Options(), {}), inputs | {"own": torch.full((BATCH,), 16)}


def egn() -> tuple[Network, dict[str, Tensor]]:
    """Of the size that a CPU trains."""
    small = {"dim": 128, "layers": 4, "heads": 4, "hidden": 512, "exemplar_heads": 4, "exemplar_width": 32}
    network = EGN(width=WIDTH, targets=GENES, pool="eca", **small)
    inputs = {"window": torch.randn(32, 3, 256, 256), "feature": torch.randn(32, WIDTH)}
    others = {"exemplar_features": torch.randn(32, 9, WIDTH), "exemplar_targets": torch.randn(32, 9, GENES)}
    return network, inputs | others


def run() -> list[Row]:
    """At most 10 % of a step."""
    found = []
    for name, make, rounds in (("spots", spots, 40), ("egn", egn, 8)):
        network, inputs = make()
        target = torch.randn(len(next(iter(inputs.values()))), GENES)
        joint = JointLoss()
        optimizer = torch.optim.AdamW(network.parameters(), foreach=True)

        def step(loss: Callable[..., Tensor], network: Any = network, given: Any = inputs, y: Tensor = target) -> None:
            optimizer.zero_grad()  # noqa: B023  (called in this turn)
            loss(network(given).prediction, y).backward()
            optimizer.step()  # noqa: B023

        words = f"a step of {name} with the correlation of {GENES} genes / with MSE alone"
        found.append(row(words, 1.1, lambda: step(joint), lambda: step(F.mse_loss), rounds=rounds))  # noqa: B023
    return found
