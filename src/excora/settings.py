"""What a run is asked to be, and what it then is: the model's options, the recipe of the training, the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from excora.errors import InputError
from excora.models import Model, default_model, models
from excora.models.parts.start import STARTS
from excora.options import CHOSEN, ByRows, Options, checked, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(Options):
    """How a model is trained. The defaults are those of a model that wants nothing else."""

    error: str = option("mse", "The loss of each prediction: squared, or mae = absolute.", choices=("mse", "mae"))
    correlation: str = option(
        "dnpl",
        "The correlation loss beside MSE; dnpl = dispersion-normalised Pearson.",
        choices=("dnpl", "pearson", "concordance", "none"),
    )
    correlation_weight: float = option(0.5, "Weight of the correlation loss.", least=0)
    fewest: int = option(
        2, "Samples that a batch needs for a correlation loss; the rest of an epoch may have fewer.", least=2
    )
    epochs: int = option(100, "Most passes over the training part.", least=1)
    patience: int = option(15, "Epochs without a better validation score before it stops.", least=1)
    criterion: str = option(
        "joint",
        "What picks the epoch, on validation: joint = MSE + weight (1 - PCC).",
        choices=("joint", "pcc", "mse"),
    )
    batch_size: int = option(64, "Samples of a step, over all devices.", least=2)
    accumulate: int = option(1, "Micro-batches a step; exact, for one more forward pass.", least=1)
    max_elements: int = option(200_000, "Elements in memory at once; larger batches are cut and accumulated.", least=1)
    learning_rate: float = option(1e-3, "Step size of AdamW.", least=0)
    pretrained_rate: float = option(
        1.0, "Factor on it for weights that were trained elsewhere (a text encoder).", least=0
    )
    schedule: str = option(
        "constant",
        "Of the step size; cosine = up over the first 5 % of all steps, then down to 0 by the last of --epochs.",
        choices=("constant", "cosine"),
    )
    clip: float = option(0.0, "Bound on the norm of a step's gradient; 0 = none.", least=0)
    average: float = option(
        0.0, "Decay of the average of the weights that is scored and kept, in [0, 1); 0 = none.", least=0, below=1
    )
    weight_decay: float = option(1e-5, "Weight decay of AdamW; none on gamma and temperature.", least=0)
    start: str = option(
        "auto", "What the network adds to: a ridge, nothing, or as left-out samples and validation say.", choices=STARTS
    )
    seed: int = option(0, "Seed of split, start, order and dropout.", least=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine(Options):
    """What a model is trained on; none of it changes the result beyond rounding, but for ``precision``."""

    accelerator: str = option("auto", "As Lightning's Trainer takes it: cpu, gpu; auto = a GPU if there is one.")
    devices: int = option(1, "Processes a node.", least=1)
    nodes: int = option(1, "Machines; see docs/training.md for SLURM and torchrun.", least=1)
    strategy: str = option("auto", "As Lightning's Trainer takes it: auto, ddp and its kin.")
    precision: str = option("32-true", "Arithmetic of the forward pass.", choices=("32-true", "bf16-mixed", "16-mixed"))
    workers: int = option(0, "Processes that read data.", least=0)
    logger: str = option("csv", "Where curves go besides metrics.csv.", choices=("csv", "tensorboard"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy != "auto" and not self.strategy.startswith("ddp"):
            raise InputError(f"strategy must be auto or one of Lightning's ddp family, got {self.strategy!r}")


@dataclasses.dataclass(frozen=True)
class Setup:
    """A run's settings, complete: the model by name, its options, the recipe, the machine."""

    model: str
    options: Any  #: of the class :attr:`excora.models.Model.Options` of the model
    recipe: Recipe = Recipe()
    machine: Machine = Machine()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Setup:
        """What :meth:`to_dict` gave, and what version 0.1 wrote: all settings of all models in one dictionary."""
        if not isinstance(values, dict):
            raise InputError(f"settings are a dictionary by name, got {type(values).__name__}")
        if "options" not in values:
            return _from_flat(values)
        unknown = sorted(map(str, set(values) - {"model", "options", "recipe", "machine"}))
        if unknown:
            raise InputError(
                f"unknown settings {', '.join(unknown)}: this run was written by another version of Excora"
            )
        model = _trained(values)
        options = model.Options.from_dict(values["options"])
        recipe = values.get("recipe", {})
        if isinstance(recipe, dict):  # until 0.2 a network started from nothing
            recipe = {"start": "none", **recipe}
        parts = Recipe.from_dict(recipe), Machine.from_dict(values.get("machine", {}))
        return cls(model.name, options, *parts)

    def flat(self) -> dict[str, Any]:
        """All of it by name, as :class:`Settings` takes it."""
        parts: tuple[Options, ...] = (self.options, self.recipe, self.machine)
        return {"model": self.model} | {name: value for part in parts for name, value in part.to_dict().items()}

    def settings(self) -> Settings:
        """What to ask for to get the same: for a run that goes on, or does it again."""
        return Settings(**self.flat())

    def with_seed(self, seed: int) -> Setup:
        """The same with another seed."""
        return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, seed=seed))


def _trained(values: dict[str, Any]) -> Model:
    name = values.get("model")
    if name == "auto" or not isinstance(name, str):
        raise InputError(f"the settings of a trained network name its model, got {name!r}")
    return models[name]


#: Every setting of version 0.1, whose record knew all models.
_FLAT = (
    "model", "pool", "dim", "layers", "head", "heads", "dropout", "attention_dropout", "scaling", "embeddings",
    "neighbours", "shared", "bins", "metric", "gap", *Recipe.names(), *Machine.names(),
)  # fmt: skip


def _from_flat(values: dict[str, Any]) -> Setup:
    unknown = sorted(map(str, set(values) - set(_FLAT)))
    if unknown:
        raise InputError(f"unknown settings {', '.join(unknown)}: this run was written by another version of Excora")
    model = _trained({"model": "pool", **values})

    def part(kind: type[Options]) -> Any:
        return kind.from_dict({name: values[name] for name in kind.names() if values.get(name) is not None})

    values = {"start": "none", **values}
    return Setup(model.name, part(model.Options), part(Recipe), part(Machine))


def _preset(model: str, name: str | None) -> Mapping[str, Any]:
    """What a model has under this name."""
    if name is None:
        return {}
    known = {} if model in CHOSEN else models[model].presets
    if name not in known:
        having = [f"{other}: {', '.join(models[other].presets)}" for other in models if models[other].presets]
        raise InputError(f"model {model!r} has no preset {name!r}; presets by model are {'; '.join(having)}")
    return known[name]


class Settings:
    """What is asked of a run, by name: options of its model, of the :class:`Recipe`, of the :class:`Machine`.

    What is not named, or None, is as the model wants it. A name that no model has, or a value outside its rule, is an
    :class:`InputError`. ``model`` "auto" is the model for the kind of samples, once there are some; "best" the one that
    is best on the validation part (:func:`excora.training.choosing.choose`), for those who fit.

    >>> Settings(pool="softmax", epochs=5)
    Settings(model='auto', pool='softmax', epochs=5)
    >>> setup = Settings(epochs=5).settled("table", rows=2000)
    >>> setup.model, setup.options.dim, setup.recipe.epochs, setup.recipe.batch_size
    ('ft-transformer', 64, 5, 64)
    >>> Settings(model="retrieval").settled("table", rows=2000).options.dim
    96

    Every name is an option of ``excora fit`` as well, and is explained there: ``excora fit --model NAME --help``.
    ``preset``: what the model has under that name (:attr:`Model.presets`), but for what is named beside it.

    >>> Settings("egn", preset="paper", dim=512).settled("spatial", rows=9).options.layers
    8
    """

    def __init__(self, model: str = "auto", *, preset: str | None = None, **named: Any) -> None:
        if not isinstance(model, str) or (model not in CHOSEN and model not in models):
            raise InputError(f"model must be one of {', '.join((*CHOSEN, *models))}, got {model!r}")
        self.model = model
        self.named: dict[str, Any] = {}
        asked = {name: value for name, value in named.items() if value is not None}
        for name, value in {**_preset(model, preset), **asked}.items():
            self.named[name] = self._checked(name, value)
        Machine(**{name: value for name, value in self.named.items() if name in Machine.names()})

    def _checked(self, name: str, value: Any) -> Any:
        """The value, if the one who knows the name takes it; with "auto" or "best", if one of those who do."""
        known = [models[other].Options for other in models if self.model in (*CHOSEN, other)]
        records = (Recipe, Machine, *known)
        fields = [field for record in records for field in dataclasses.fields(record) if field.name == name]
        if not fields:
            owners = [other for other in models if name in models[other].Options.names()]
            hint = f"; it is an option of {', '.join(owners)}" if owners else ""
            where = "any model" if self.model in CHOSEN else f"model {self.model!r}"
            raise InputError(f"there is no setting {name!r} of {where}{hint}: see excora fit --model NAME --help")
        wrong: list[InputError] = []
        for field in fields:
            try:
                return checked(field, value)
            except InputError as error:
                wrong.append(error)
        raise max(wrong, key=lambda error: len(str(error)))  # of the model with the widest choice

    def model_for(self, kind: str) -> Model:
        """The model; "auto" is the default for this kind of samples that has the options named.

        Who names a part of the recipe, but for the seed, wants a model that is trained.

        >>> Settings().model_for("table").name, Settings(epochs=9).model_for("table").name
        ('kriging', 'ft-transformer')
        """
        if self.model == "best":
            raise InputError("model 'best' is what a fit chooses on its validation part: name a model here")
        if self.model != "auto":
            return models[self.model]
        options = {*self.named} - {*Recipe.names(), *Machine.names()}
        return models[default_model(kind, options, trained=bool({*self.named} & {*Recipe.names()} - {"seed"}))]

    def settled(self, kind: str, rows: int) -> Setup:
        """Complete, for ``rows`` training samples of this kind.

        >>> [Settings(model="retrieval").settled("table", rows).recipe.epochs for rows in (100, 1000, 100_000)]
        [60, 25, 15]
        """
        model = self.model_for(kind)
        Settings(model.name, **self.named)  # names that this model does not have
        wanted = {name: x(rows) if isinstance(x, ByRows) else x for name, x in model.recipe.items()}

        def part(record: type[Options], given: dict[str, Any]) -> Any:
            return record(**given, **{name: x for name, x in self.named.items() if name in record.names()})

        asked = {name: x for name, x in wanted.items() if name not in self.named}
        return Setup(model.name, part(model.Options, {}), cast(Recipe, part(Recipe, asked)), part(Machine, {}))

    def replace(self, **named: Any) -> Settings:
        """The same with some named otherwise."""
        return Settings(**({"model": self.model} | self.named | named))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and (self.model, self.named) == (other.model, other.named)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        named = "".join(f", {name}={value!r}" for name, value in self.named.items())
        return f"Settings(model={self.model!r}{named})"
