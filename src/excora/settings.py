"""Every choice of a training run in one place; the command line, the estimators and the run folder share it."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any

from excora.errors import InputError

#: The models one can ask for by name; bags have the first.
MODELS = ("pool", "ft-transformer")
#: The pools one can ask for by name, weakest first.
POOLS = ("mean", "softmax", "gated", "eca-paper", "eca")


def _option(default: Any, panel: str, says: str, **rule: Any) -> Any:
    """A setting: what it does, in the words of the command line's help, and the rule its value must keep."""
    return dataclasses.field(default=default, metadata={"help": says, "panel": panel, **rule})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Model, loss, optimisation and machine of one run; the defaults suit a few hundred to a million samples.

    >>> Settings(pool="softmax", epochs=5).to_dict()["epochs"]
    5

    Every setting is an option of ``excora fit`` of the same name, and is explained there. A value outside its range is
    an :class:`InputError` that names the setting.
    """

    model: str = _option(
        "pool",
        "Model",
        "What reads a table: ft-transformer attends as --pool says (softmax, eca-paper, eca).",
        choices=MODELS,
    )
    pool: str = _option("eca", "Model", "How the elements of a sample become one vector.", choices=POOLS)
    dim: int = _option(64, "Model", "Width of the elements after the encoder.", least=1)
    layers: int = _option(1, "Model", "Depth of the encoder; 0 = none, for bags of good features.", least=0)
    heads: int = _option(4, "Model", "Attention heads of the encoder of a table.", least=1)
    dropout: float = _option(0.0, "Model", "Dropout of the encoder, in [0, 1).", least=0, below=1)

    correlation: str = _option(
        "dnpl",
        "Training",
        "The correlation loss beside MSE; dnpl = dispersion-normalised Pearson.",
        choices=("dnpl", "pearson", "concordance", "none"),
    )
    correlation_weight: float = _option(0.5, "Training", "Weight of the correlation loss.", least=0)
    epochs: int = _option(100, "Training", "Most passes over the training part.", least=1)
    patience: int = _option(15, "Training", "Epochs without a better validation score before it stops.", least=1)
    criterion: str = _option(
        "joint",
        "Training",
        "What picks the epoch, on validation: joint = MSE + weight (1 - PCC).",
        choices=("joint", "pcc", "mse"),
    )
    batch_size: int = _option(64, "Training", "Samples of a step, over all devices.", least=2)
    accumulate: int = _option(1, "Training", "Micro-batches a step; exact, for one more forward pass.", least=1)
    max_elements: int = _option(
        200_000, "Training", "Elements in memory at once; larger batches are cut and accumulated.", least=1
    )
    learning_rate: float = _option(1e-3, "Training", "Step size of AdamW.", least=0)
    weight_decay: float = _option(1e-5, "Training", "Weight decay of AdamW; none on gamma and temperature.", least=0)
    seed: int = _option(0, "Training", "Seed of split, start, order and dropout.", least=0)

    accelerator: str = _option(
        "auto", "Machine", "As Lightning's Trainer takes it: cpu, gpu; auto = a GPU if there is one."
    )
    devices: int = _option(1, "Machine", "Processes a node.", least=1)
    nodes: int = _option(1, "Machine", "Machines; see docs/training.md for SLURM and torchrun.", least=1)
    strategy: str = _option("auto", "Machine", "As Lightning's Trainer takes it: auto, ddp and its kin.")
    precision: str = _option(
        "32-true", "Machine", "Arithmetic of the forward pass.", choices=("32-true", "bf16-mixed", "16-mixed")
    )
    workers: int = _option(0, "Machine", "Processes that read data.", least=0)
    logger: str = _option("csv", "Machine", "Where curves go besides metrics.csv.", choices=("csv", "tensorboard"))

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            plain = _plain(field.name, getattr(self, field.name), str(field.type), field.metadata)
            object.__setattr__(self, field.name, plain)
        if self.strategy != "auto" and not self.strategy.startswith("ddp"):
            raise InputError(f"strategy must be auto or one of Lightning's ddp family, got {self.strategy!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """The settings that :meth:`to_dict` gave; an unknown name is an error."""
        if not isinstance(values, dict):
            raise InputError(f"settings are a dictionary by name, got {type(values).__name__}")
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise InputError(f"unknown settings {sorted(unknown)}: this run was written by another version of Excora")
        return cls(**values)


_KINDS: dict[str, tuple[Any, Any, str]] = {
    "int": (numbers.Integral, int, "a whole number"),
    "float": (numbers.Real, float, "a number"),
    "str": (str, str, "a word"),
}


def _plain(name: str, value: Any, kind: str, rule: Mapping[str, Any]) -> Any:
    """The value as Python's own kind, if it keeps the rule: numpy's numbers would not survive JSON."""
    accepted, make, words = _KINDS[kind]
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise InputError(f"{name} must be {words}, got {value!r}")
    if "choices" in rule and value not in rule["choices"]:
        raise InputError(f"{name} must be one of {', '.join(rule['choices'])}, got {value!r}")
    if "least" in rule and not rule["least"] <= value < rule.get("below", math.inf):
        bounds = f"in [{rule['least']}, {rule['below']})" if "below" in rule else f"finite and at least {rule['least']}"
        raise InputError(f"{name} must be {bounds}, got {value}")
    return make(value)
