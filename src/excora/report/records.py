"""What a page shows, as typed records: made of what has just been computed, or read from a folder, with distrust."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from excora.diagnosis.explaining import Explained
from excora.errors import InputError
from excora.report.checking import build
from excora.report.insides import Inside
from excora.report.numerals import correlation, plural
from excora.report.parts import Attention, Config, ModelRow, Number, Pair, Predictions, Results
from excora.report.reading import numbers, read_columns, read_json
from excora.report.slides import Tissue

Epochs = list[dict[str, Number]]
FILES = (
    *("config.json", "results.json", "metrics.csv", "monitor.json"),
    *("predictions.csv", "attention.json", "inside.json", "tissue.json"),
)


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    """A comparison: what of ``Comparison.to_dict()``, and so of comparison.json, a page shows."""

    reference: str
    rows: list[ModelRow]
    pairs: list[Pair]
    sentence: str
    rerun: str
    notes: list[str] = field(default_factory=list)
    setup: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, content: Mapping[str, Any], source: object = "comparison") -> ComparisonRecord:
        """From ``Comparison.to_dict()``."""
        found: ComparisonRecord = build(cls, _one_pcc(content), source)
        return found

    @classmethod
    def load(cls, folder: str | Path) -> ComparisonRecord:
        """From the comparison.json of a folder; one that is missing or broken is an InputError."""
        path = Path(folder) / "comparison.json"
        return cls.of(read_json(path), path)

    @property
    def title(self) -> str:
        """What was predicted."""
        return _title(_listed(self.setup.get("target", [])))

    @property
    def line(self) -> str:
        """From what, by how many."""
        return _line(self.setup.get("data"), f"{plural(len(self.rows), 'model')} on the same folds")


@dataclass(frozen=True, kw_only=True)
class _Monitor:
    """monitor.json."""

    records: list[Any]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run. What is None or empty is not known, and its sections are left out with a word why."""

    config: Config | None = None
    results: Results | None = None
    metrics: Epochs = field(default_factory=list)  #: a row of metrics.csv each
    monitor: Epochs = field(default_factory=list)  #: a record of the PlateauMonitor each
    predictions: Predictions | None = None
    attention: dict[str, Attention] = field(default_factory=dict)  #: by pool
    inside: Inside | None = None  #: of a look inside the network, if it was asked for
    comparison: ComparisonRecord | None = None  #: of the same folder
    tissue: Tissue | None = None  #: under the spots, where samples are spots

    @classmethod
    def of(
        cls,
        *,
        config: Mapping[str, Any] | None = None,
        results: Mapping[str, Any] | None = None,
        metrics: Iterable[Mapping[str, Any]] = (),
        monitor: Iterable[Mapping[str, Any]] = (),
        predictions: Mapping[str, Any] | None = None,
        attention: Mapping[str, Any] | None = None,
        inside: Mapping[str, Any] | None = None,
        comparison: ComparisonRecord | None = None,
        tissue: Mapping[str, Any] | None = None,
        folder: Path | None = None,
    ) -> RunRecord:
        """From plain values, as they go into the files of a run folder; ``folder`` is for the errors to name.

        ``metrics``: a dictionary an epoch. ``monitor``: the records. ``predictions``: columns by name, such as
        ``dict(frame.items())``. ``attention``: by pool. NaN counts as undefined.
        """

        def file(name: str) -> object:
            return name.partition(".")[0] if folder is None else folder / name

        made = None if config is None else build(Config, config, file("config.json"))
        worth = None if results is None else build(Results, results, file("results.json"))
        named = cls(config=made, results=worth, comparison=comparison).targets
        table = None if predictions is None else Predictions.of(predictions, named, file("predictions.csv"))
        return cls(
            config=made, results=worth, predictions=table, comparison=comparison,
            metrics=_epochs(metrics, ("epoch", "validation_pcc", "validation_mse"), file("metrics.csv")),
            monitor=_epochs(monitor, ("epoch", "pcc", "mse"), file("monitor.json")),
            attention=build(dict[str, Attention], attention or {}, file("attention.json")),
            inside=None if inside is None else build(Inside, inside, file("inside.json")),
            tissue=None if tissue is None else build(Tissue, tissue, file("tissue.json")),
        )  # fmt: skip

    @classmethod
    def load(cls, folder: str | Path) -> RunRecord:
        """From a run folder, those of its files that are there, and its comparison.json.

        A file that is broken or lacks what it should have is an InputError that names it.
        """
        folder = Path(folder)
        there = {name: folder / name for name in FILES if (folder / name).exists()}
        found: dict[str, Any] = {
            name[:-5]: read_json(there[name])
            for name in ("config.json", "results.json", "inside.json")
            if name in there
        }
        if path := there.get("metrics.csv"):
            table = read_columns(path)
            rows = zip(*(numbers(path, table, name) for name in table), strict=True)
            found["metrics"] = [dict(zip(table, row, strict=True)) for row in rows]
        if path := there.get("monitor.json"):
            found["monitor"] = build(_Monitor, read_json(path, undefined=True), path).records
        if path := there.get("predictions.csv"):
            found["predictions"] = _predictions(path)
        if path := there.get("attention.json"):
            content = read_json(path)
            several = isinstance(content, dict) and "pools" in content  # before 0.2 there was one, without a name
            found["attention"] = content["pools"] if several else {"": content}
        if path := there.get("tissue.json"):
            found["tissue"] = read_json(path)
        comparison = ComparisonRecord.load(folder) if (folder / "comparison.json").exists() else None
        return cls.of(**found, comparison=comparison, folder=folder)

    @property
    def targets(self) -> list[str]:
        """Names of the targets, as far as known."""
        if self.results is not None:
            return list(self.results.scores)
        if self.config is not None:
            return _listed(self.config.data.get("target", []))
        return [] if self.comparison is None else _listed(self.comparison.setup.get("target", []))

    @property
    def title(self) -> str:
        """What was predicted."""
        return _title(self.targets)

    @property
    def line(self) -> str:
        """From what, with which model."""
        if self.config is None:
            return "A run without its config.json" if self.comparison is None else self.comparison.line
        chosen = {word: self.config.setting(word) for word in ("model", "pool")}
        words = [f"the {word} {name}" for word, name in chosen.items() if isinstance(name, str)]
        return _line(self.config.data.get("path"), *([f"with {' and '.join(words)}"] if words else []), *self._beside)

    @property
    def _beside(self) -> list[str]:
        """The scores of simple models in words."""
        if self.results is None or not self.results.simple:
            return []
        scores = ", ".join(f"{name} {correlation(pcc)}" for name, pcc in self.results.simple.items())
        return [f"beside {scores} ({self.results.part} PCC on the same split)"]


@dataclass(frozen=True, kw_only=True)
class ExplanationRecord:
    """What predictions hang on: :class:`excora.application.explaining.Explanations`, by sample."""

    model: str
    target: str
    data: str
    sensitivity: float
    rows: Mapping[str, Explained]

    @property
    def title(self) -> str:
        """What was predicted."""
        return f"What predictions of {self.target} hang on"

    @property
    def line(self) -> str:
        """From what, with which model."""
        return _line(self.data, f"with the model {self.model}", plural(len(self.rows), "sample"))


Record = RunRecord | ComparisonRecord


def _one_pcc(content: Any) -> Any:
    """In 0.1 the PCC of a row was a mean over folds, and what differences are taken of stood beside it."""
    rows = content.get("rows") if isinstance(content, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return content
    names = {"pooled_pcc": "pcc", "pooled_mse": "mse"}
    return {**content, "rows": [row | {new: row[old] for old, new in names.items() if old in row} for row in rows]}


def _epochs(rows: Iterable[Mapping[str, Any]], needed: tuple[str, ...], source: object) -> Epochs:
    found: Epochs = build(Epochs, list(rows), source)
    for number, row in enumerate(found, 1):
        lacks = [name for name in needed if name not in row or (name == "epoch" and row[name] is None)]
        if lacks:
            raise InputError(f"{source}: epoch {number} must have {lacks[0]!r}, got only {', '.join(map(repr, row))}")
    return found


def _predictions(path: Path) -> dict[str, Any]:
    """Text and numbers by column; a label may be unknown, a prediction not."""
    table = read_columns(path)
    found: dict[str, Any] = dict(table)
    for name in table:
        word = name.partition(":")[0]
        if word in ("target", "prediction"):
            found[name] = numbers(path, table, name, finite=True, gaps=word == "target")
        elif word == "outside":
            found[name] = numbers(path, table, name)
    return found


def _listed(names: Any) -> list[str]:
    return [str(name) for name in (names if isinstance(names, list) else [names])]


def _title(targets: list[str]) -> str:
    what = ", ".join(targets[:3]) + (f" and {len(targets) - 3} more" if len(targets) > 3 else "")
    return f"Predicting {what}" if what else "Training run"


def _line(path: Any, *more: str) -> str:
    words = ", ".join([*([] if path is None else [f"from {_named(str(path))}"]), *more])
    return words[:1].upper() + words[1:]


def _named(paths: str) -> str:
    """What a command line named, in few words; of several the first."""
    if Path(paths).exists():  # a name with blanks in it
        return Path(paths).name
    try:
        first, *others = shlex.split(paths)
    except ValueError:  # a quotation mark in a name
        first, others = paths, []
    return Path(first).name + (f" and {len(others)} more" if others else "")
