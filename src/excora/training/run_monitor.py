"""The plateau monitor of a run: of the network's own choice of pool and head, for steps that come in pieces as well."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from excora.models import Network
from excora.monitor import PlateauMonitor
from excora.pooling import MeanPool


class RunMonitor(PlateauMonitor):
    """A :class:`PlateauMonitor` that also takes in the pieces of an accumulated step, one after another.

    It listens to what :attr:`Network.monitored` names; to predictions alone where the network has no such parts, or a
    mean for a pool: there is no attention that could collapse.
    """

    def __init__(self, network: Network, *, stage: str = "train") -> None:
        parts = dict(network.named_children())
        pool, head = network.monitored or ("", "")
        there = parts.keys() >= {pool, head} and not any(isinstance(part, MeanPool) for part in parts[pool].modules())
        # The head of a network that starts from a ridge predicts what that leaves: its ceilings are not the target's.
        judged = there and network.linear_start is None
        super().__init__(
            pool=f"network.{pool}" if there else None, head=f"network.{head}" if judged else None, stage=stage
        )

    def setup(self, trainer: Any, pl_module: nn.Module, stage: str) -> None:
        """Listen, if there is a pool to listen to."""
        if self.pool is not None:
            super().setup(trainer, pl_module, stage)

    def take(self, prediction: Tensor, target: Tensor, mask: Tensor | None) -> None:
        """A piece, right after its forward pass."""
        self._take({"prediction": prediction, "target": target, "label_mask": mask})

    def on_train_batch_end(self, trainer: Any, pl_module: nn.Module, outputs: Any, *rest: Any) -> None:
        """Take the batch in, unless its pieces are in already."""
        if "prediction" in outputs:
            super().on_train_batch_end(trainer, pl_module, outputs, *rest)
