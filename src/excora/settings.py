"""Every choice of a training run in one place; the command line, the estimators and the run folder share it."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from excora.errors import InputError

#: The models one can ask for by name; "auto" is the one of :data:`MODEL_OF`.
MODELS = ("auto", "pool", "ft-transformer", "retrieval")
#: The model for rows of a table, unless one is asked for.
TABLE_MODEL = "ft-transformer"
#: The model of each kind of samples, unless one is asked for.
MODEL_OF = {"bags": "pool", "table": TABLE_MODEL}
#: The pools one can ask for by name, weakest first.
POOLS = ("mean", "softmax", "gated", "eca-paper", "eca")


class _ByRows:
    """What a model wants of a setting, by the number of its training rows; for help texts, in words."""

    def __init__(self, says: str, rule: Callable[[int], int]) -> None:
        self.says, self.rule = says, rule

    def __str__(self) -> str:
        return self.says


def _batches(least: int) -> Callable[[int], int]:
    """By rows: the power of two nearest to rows / 32, within ``least`` and 256."""
    return lambda rows: min(max(2 ** max(round(math.log2(max(rows, 1) / 32)), 0), least), 256)


def _epochs(least: int, steps: int, most: int) -> Callable[[int], int]:
    """By rows: as many as make ``steps`` steps of batches of at least ``least``, within 15 and ``most``."""
    batch = _batches(least)
    return lambda rows: min(max(math.ceil(steps / math.ceil(max(rows, 1) / batch(rows))), 15), most)


def _option(default: Any, panel: str, says: str, **rule: Any) -> Any:
    """A setting: what it does, in the words of the command line's help, and the rule its value must keep.

    ``own``: what it is for some models instead of ``default``. Such a setting is None until the model is known, and
    one of :class:`_ByRows` until the number of training rows is known too.
    """
    metadata = {"help": says, "panel": panel, "default": default, **rule}
    return dataclasses.field(default=None if "own" in rule else default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Model, loss, optimisation and machine of one run; the defaults suit a few hundred to a million samples.

    >>> Settings(pool="softmax", epochs=5).to_dict()["epochs"]
    5

    Every setting is an option of ``excora fit`` of the same name, and is explained there. A value outside its range is
    an :class:`InputError` that names the setting.

    What a model wants otherwise than the others (its width, dropout, batch size, ...) is None, "as the model wants",
    until there is a model:

    >>> Settings().dim, Settings(model="pool").dim, Settings().settled("retrieval").dim
    (None, 64, 96)

    and what depends on the number of training rows until that is known:

    >>> Settings(model="retrieval").batch_size, Settings().settled("retrieval", rows=2000).batch_size
    (None, 64)
    """

    model: str = _option(
        "auto",
        "Model",
        f"What reads the samples: pool; for tables ft-transformer or retrieval too. auto: {TABLE_MODEL} for tables.",
        choices=MODELS,
    )
    pool: str = _option("eca", "Model", "How the elements of a sample become one vector.", choices=POOLS)
    dim: int = _option(64, "Model", "Width of the elements after the encoder.", least=1, own={"retrieval": 96})
    layers: int = _option(
        1, "Model", "Depth of the encoder; 0 = none, for bags of good features.", least=0, own={"ft-transformer": 2}
    )
    head: int = _option(0, "Model", "Hidden layers of the head; 0 = linear. Model pool only.", least=0)
    heads: int = _option(4, "Model", "Attention heads over the columns of a table; not for retrieval.", least=1)
    dropout: float = _option(
        0.0,
        "Model",
        "Dropout of the encoder, in [0, 1).",
        least=0,
        below=1,
        own={"ft-transformer": 0.1, "retrieval": 0.1},
    )
    attention_dropout: float = _option(
        0.0,
        "Model",
        "Dropout of attention weights, in [0, 1); ft-transformer and retrieval only.",
        least=0,
        below=1,
        own={"ft-transformer": 0.1, "retrieval": 0.2},
    )
    scaling: str = _option(
        "standard",
        "Model",
        "Numbers of a table: standard = mean 0, deviation 1; quantile = normal by their ranks in training.",
        choices=("standard", "quantile"),
    )
    embeddings: str = _option(
        "linear", "Model", "How ft-transformer embeds numbers.", choices=("linear", "piecewise", "periodic")
    )
    neighbours: int = _option(24, "Model", "Training rows that a row looks at; retrieval only.", least=1)
    shared: int = _option(0, "Model", "Layers that a row passes as a neighbour too; retrieval only.", least=0)
    bins: int = _option(
        8, "Model", "Pieces of each number that a row's own encoding reads; 0 = none; retrieval only.", least=0
    )
    metric: str = _option(
        "diagonal",
        "Model",
        "How near rows are: columns weighed and mixed, weighed, or as they are; retrieval only.",
        choices=("full", "diagonal", "plain"),
    )
    gap: float = _option(
        0.0,
        "Model",
        "Training rows at most so far apart in --time (dates: days) do not see each other; retrieval only.",
        least=0,
    )

    correlation: str = _option(
        "dnpl",
        "Training",
        "The correlation loss beside MSE; dnpl = dispersion-normalised Pearson.",
        choices=("dnpl", "pearson", "concordance", "none"),
    )
    correlation_weight: float = _option(0.5, "Training", "Weight of the correlation loss.", least=0)
    epochs: int = _option(
        100,
        "Training",
        "Most passes over the training part.",
        least=1,
        own={
            "ft-transformer": _ByRows("15 to 100 for 2000 steps", _epochs(64, 2000, 100)),
            "retrieval": _ByRows("15 to 60 for 800 steps", _epochs(32, 800, 60)),
        },
    )
    patience: int = _option(15, "Training", "Epochs without a better validation score before it stops.", least=1)
    criterion: str = _option(
        "joint",
        "Training",
        "What picks the epoch, on validation: joint = MSE + weight (1 - PCC).",
        choices=("joint", "pcc", "mse"),
    )
    batch_size: int = _option(
        64,
        "Training",
        "Samples of a step, over all devices.",
        least=2,
        own={
            "ft-transformer": _ByRows("rows / 32 from 64 to 256", _batches(64)),
            "retrieval": _ByRows("rows / 32 from 32 to 256", _batches(32)),
        },
    )
    accumulate: int = _option(1, "Training", "Micro-batches a step; exact, for one more forward pass.", least=1)
    max_elements: int = _option(
        200_000, "Training", "Elements in memory at once; larger batches are cut and accumulated.", least=1
    )
    learning_rate: float = _option(1e-3, "Training", "Step size of AdamW.", least=0)
    schedule: str = _option(
        "constant",
        "Training",
        "Of the step size; cosine = up over the first 5 % of all steps, then down to 0 by the last of --epochs.",
        choices=("constant", "cosine"),
        own={"retrieval": "cosine"},
    )
    clip: float = _option(
        0.0, "Training", "Bound on the norm of a step's gradient; 0 = none.", least=0, own={"retrieval": 1.0}
    )
    average: float = _option(
        0.0,
        "Training",
        "Decay of the average of the weights that is scored and kept, in [0, 1); 0 = none.",
        least=0,
        below=1,
        own={"retrieval": 0.99},
    )
    weight_decay: float = _option(
        1e-5,
        "Training",
        "Weight decay of AdamW; none on gamma and temperature.",
        least=0,
        own={"retrieval": 1e-2},
    )
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
            value, rule = getattr(self, field.name), field.metadata
            if value is None and "own" in rule:
                value = None if self.model == "auto" else rule["own"].get(self.model, rule["default"])
                value = None if isinstance(value, _ByRows) else value
            if value is not None or "own" not in rule:
                value = _plain(field.name, value, str(field.type), rule)
            object.__setattr__(self, field.name, value)
        if self.strategy != "auto" and not self.strategy.startswith("ddp"):
            raise InputError(f"strategy must be auto or one of Lightning's ddp family, got {self.strategy!r}")

    def settled(self, model: str, rows: int | None = None) -> Settings:
        """Complete: ``auto`` becomes ``model``, and what is not set what that model wants. Others stay as they are.

        ``rows``: the number of training rows; without it, what depends on them stays open.

        >>> Settings(dim=8).settled(MODEL_OF["bags"]).model, Settings(model="pool").settled("retrieval").model
        ('pool', 'pool')
        >>> [Settings().settled("retrieval", rows).epochs for rows in (100, 1000, 100_000)]
        [60, 25, 15]
        """
        chosen = dataclasses.replace(self, model=model) if self.model == "auto" else self
        if rows is None:
            return chosen
        own = {field.name: field.metadata.get("own", {}).get(chosen.model) for field in dataclasses.fields(self)}
        wanted: dict[str, Any] = {name: x.rule(rows) for name, x in own.items() if isinstance(x, _ByRows)}
        wanted = {name: value for name, value in wanted.items() if getattr(chosen, name) is None}
        return dataclasses.replace(chosen, **wanted) if wanted else chosen

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
