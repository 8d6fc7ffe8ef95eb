"""The plateau monitor of a run, for steps that come in pieces as well."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from excora.monitor import PlateauMonitor


class RunMonitor(PlateauMonitor):
    """A :class:`PlateauMonitor` that also takes in the pieces of an accumulated step, one after another."""

    def take(self, prediction: Tensor, target: Tensor) -> None:
        """A piece, right after its forward pass."""
        self._take({"prediction": prediction, "target": target})

    def on_train_batch_end(self, trainer: Any, pl_module: nn.Module, outputs: Any, *rest: Any) -> None:
        """Take the batch in, unless its pieces are in already."""
        if "prediction" in outputs:
            super().on_train_batch_end(trainer, pl_module, outputs, *rest)
