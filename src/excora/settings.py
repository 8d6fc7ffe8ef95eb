"""Every choice of a training run in one place; the command line, the estimators and the run folder share it."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from excora.errors import InputError

#: The pools one can ask for by name, weakest first.
POOLS = ("mean", "softmax", "gated", "eca-paper", "eca")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Model, loss, optimisation and machine of one run; the defaults suit a few hundred to a million samples.

    >>> Settings(pool="softmax", epochs=5).to_dict()["epochs"]
    5

    A value outside its range is an :class:`InputError` that names the option.
    """

    # model
    pool: str = "eca"
    dim: int = 64  #: width of the elements after the encoder
    layers: int = 1  #: depth of the encoder; 0 for elements that need none (bags only)
    heads: int = 4  #: attention heads of the encoder of a table
    dropout: float = 0.0
    # loss: MSE + correlation_weight * correlation loss + the pool's penalty
    correlation: Literal["dnpl", "pearson", "concordance", "none"] = "dnpl"
    correlation_weight: float = 0.5
    # optimisation
    epochs: int = 100
    patience: int = 15  #: epochs without a better validation score before stopping
    batch_size: int = 64  #: samples of the global batch of one step
    accumulate: int = 1  #: micro-batches a step, exact: one extra forward
    max_elements: int = 200_000  #: elements in memory at once; a larger batch is cut and accumulated
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    criterion: Literal["joint", "pcc", "mse"] = "joint"  #: what picks the epoch, on validation
    seed: int = 0
    # machine, as Lightning's Trainer takes them
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    workers: int = 0
    logger: Literal["csv", "tensorboard"] = "csv"

    def __post_init__(self) -> None:
        choices = {
            "pool": POOLS,
            "correlation": ("dnpl", "pearson", "concordance", "none"),
            "criterion": ("joint", "pcc", "mse"),
            "logger": ("csv", "tensorboard"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not value >= least:
                raise InputError(f"{name} must be at least {least}, got {value}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be in [0, 1), got {self.dropout}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """The settings that :meth:`to_dict` gave; an unknown name is an error."""
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise InputError(f"unknown settings {sorted(unknown)}: this run was written by another version of Excora")
        return cls(**values)


_LEAST = {
    "dim": 1, "layers": 0, "heads": 1, "correlation_weight": 0, "epochs": 1, "patience": 1, "batch_size": 2,
    "accumulate": 1, "max_elements": 1, "learning_rate": 0, "weight_decay": 0, "seed": 0, "devices": 1, "nodes": 1,
    "workers": 0,
}  # fmt: skip
