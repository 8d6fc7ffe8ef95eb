"""The parts of a record; a field that a file may lack has a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError
from excora.report.clips import Modalities
from excora.report.slides import Picture

Array = NDArray[np.float64]
Number = float | None  #: None where undefined


@dataclass(frozen=True, kw_only=True)
class Config:
    """How the run was made: config.json."""

    excora: str
    rerun: str  #: the command line that does it again
    state: str  #: "training", "interrupted" or "finished"
    data: dict[str, Any]  #: path, target, and the other roles
    settings: dict[str, Any]  #: by label; a dictionary among the values is a list of its own
    environment: dict[str, Any]
    split: dict[str, Any] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        """The value of a setting, wherever it stands; None if there is none."""
        inner = (part for part in self.settings.values() if isinstance(part, dict))
        return next((part[name] for part in (self.settings, *inner) if name in part), None)


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of one target; the interval is of the PCC."""

    pcc: Number
    mse: Number
    mae: Number
    low: Number = None
    high: Number = None


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """Of the test samples of one group."""

    group: Any
    n: int
    pcc: Number
    mse: Number


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A number, the rule it was held against, and whether it met the rule."""

    value: Number
    rule: str
    met: bool


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """As :class:`excora.diagnosis.Verdict` gives it."""

    name: str
    sentence: str
    advice: str
    evidence: dict[str, Evidence]


@dataclass(frozen=True, kw_only=True)
class Reached:
    """PCC and MSE, means over targets."""

    pcc: Number
    mse: Number


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What a simple model reaches on the same split."""

    name: str
    validation: Reached | None = None
    test: Reached | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings that were tried, and what they reached on validation."""

    options: dict[str, Any]
    mse: Number
    pcc: Number
    seconds: Number


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the run is worth: results.json."""

    best_epoch: int | None  #: from 0
    epochs: int
    counts: dict[str, int]  #: samples by part
    validation: dict[str, Score]
    test: dict[str, Score]
    seconds: Number = None
    stopped: str | None = None
    groups: dict[str, list[GroupScore]] = field(default_factory=dict)
    verdict: Verdict | None = None
    notes: list[str] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)  #: of `excora tune`
    chosen: list[int] = field(default_factory=list)  #: places in them, one a member
    further: dict[str, dict[str, dict[str, Number]]] = field(default_factory=dict)  #: by part, target and name
    modalities: Modalities | None = None  #: of clips, which of them is used

    @property
    def simple(self) -> dict[str, float]:
        """The PCC of simple models on the part whose scores count, by name."""
        reached = {one.name: one.test if self.part == "test" else one.validation for one in self.baselines}
        return {name: found.pcc for name, found in reached.items() if found is not None and found.pcc is not None}

    @property
    def part(self) -> Literal["test", "validation"]:
        """The part whose scores count."""
        return "test" if self.test else "validation"

    @property
    def scores(self) -> dict[str, Score]:
        """Of that part, by target."""
        return self.test or self.validation


@dataclass(frozen=True, kw_only=True)
class Element:
    """A part of a sample, and its share."""

    label: Any
    weight: float
    effective: float


@dataclass(frozen=True, kw_only=True)
class Places:
    """Elements where they lie, with their shares."""

    x: list[float]
    y: list[float]
    effective: list[float]
    under: Picture | None = None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sample whose heaviest elements are shown; of several targets prediction and target are lists."""

    id: Any
    elements: int
    top: list[Element]
    prediction: Any
    target: Any
    gamma: Number = None
    temperature: Number = None
    said: str = ""  #: of a clip
    places: Places | None = None


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What one pool did with the test samples: a figure for each, and some of them in full."""

    gamma: list[float]
    temperature: list[float]
    effective_elements: list[float]
    elements: list[int]
    bags: list[Sample]


@dataclass(frozen=True)
class Predictions:
    """Samples of validation and test part; arrays by target."""

    ids: list[str]
    part: list[str]
    group: list[str] | None
    target: dict[str, Array]  #: NaN where the label is unknown
    prediction: dict[str, Array]
    outside: Array | None = None  #: how far from what training has seen

    def drawable(self, name: str) -> NDArray[np.bool_]:
        """Which samples have both numbers of a target."""
        return np.isfinite(self.target[name]) & np.isfinite(self.prediction[name])

    @classmethod
    def of(cls, columns: Mapping[str, Any], known: list[str], source: object = "predictions") -> Predictions:
        """From the columns of predictions.csv; ``known`` are the names of the targets, as far as known."""
        several = [name.removeprefix("target:") for name in columns if name.startswith("target:")]
        names = several or (known if len(known) == 1 else ["target"])
        ends = [f":{name}" for name in several] or [""]
        for name in ("id", "part", *(word + end for end in ends for word in ("target", "prediction"))):
            if name not in columns:
                have = ", ".join(map(repr, columns))
                raise InputError(f"{source}: the column {name!r} is missing, got {have}; write the folder again")
        odd = set(columns["part"]) - {"validation", "test"}
        if odd:
            shown = repr(sorted(map(str, odd))[0][:40])
            raise InputError(f"{source}: column 'part' must hold 'validation' or 'test', got {shown}")
        text = {name: list(map(str, columns[name])) for name in ("id", "part", "group") if name in columns}
        target, prediction = (
            {name: np.asarray(columns[word + end], float) for name, end in zip(names, ends, strict=True)}
            for word in ("target", "prediction")
        )
        outside = np.asarray(columns["outside"], float) if "outside" in columns else None
        return cls(text["id"], text["part"], text.get("group"), target, prediction, outside)


@dataclass(frozen=True, kw_only=True)
class ModelRun:
    """One training of a compared model."""

    seed: int
    fold: int
    seconds: float
    pcc: Number = None


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A compared model: scores over all test samples of a seed together, mean over seeds."""

    model: str
    label: str
    pcc: Number
    mse: Number
    mae: Number
    seconds: float
    runs: list[ModelRun]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """PCC of a model minus that of another, with its interval."""

    model: str
    against: str
    difference: float
    low: float
    high: float
    verdict: Literal["better", "no difference", "cannot tell", "worse"]

    def turned(self) -> Pair:
        """The same, from the other model's side."""
        word: Any = {"better": "worse", "worse": "better"}.get(self.verdict, self.verdict)
        return Pair(
            model=self.against, against=self.model, difference=-self.difference, low=-self.high, high=-self.low,
            verdict=word,
        )  # fmt: skip
