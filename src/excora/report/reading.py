"""The files of a run or comparison folder, read and checked: what the page is made from, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError
from excora.report.schema import ATTENTION, COMPARISON, CONFIG, LARGEST, MONITOR, NUMBERS, RESULTS, check

Array = NDArray[np.float64]
Numbers = list[float | None]
METRICS = ("epoch", "train_loss", "validation_pcc", "validation_mse", "validation_criterion", "learning_rate")


@dataclass(frozen=True)
class Predictions:
    """Rows of predictions.csv of one part, "test" if it has any, else "validation"."""

    part: str
    ids: list[str]
    group: list[str] | None
    target: dict[str, Array]
    prediction: dict[str, Array]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Content:
    """Everything that a folder holds for a report; None for a file that is not there."""

    config: dict[str, Any] | None
    metrics: dict[str, Numbers] | None
    records: list[dict[str, float | None]] | None
    predictions: Predictions | None
    results: dict[str, Any] | None
    attention: dict[str, Any] | None
    comparison: dict[str, Any] | None

    @property
    def targets(self) -> list[str]:
        """Names of the targets, as far as known."""
        if self.results is not None:
            return list(self.results["test"] or self.results["validation"])
        data = self.config["data"] if self.config is not None else (self.comparison or {}).get("setup", {})
        named = data.get("target", [])
        return [str(name) for name in (named if isinstance(named, list) else [named])]

    @property
    def data(self) -> str | None:
        """Where the data came from, as far as known."""
        path = (
            self.config["data"]["path"]
            if self.config is not None
            else (self.comparison or {}).get("setup", {}).get("data")
        )
        return None if path is None else Path(str(path)).name


def read_folder(folder: Path) -> Content:
    """Read what there is. A folder without any of the files, or a file that breaks the schema, is an InputError."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give a run folder of `excora fit` or `excora compare`")
    config = _json(folder / "config.json", CONFIG)
    monitor = _json(folder / "monitor.json", MONITOR, NUMBERS, undefined=True)
    results = _json(folder / "results.json", RESULTS)
    metrics = _metrics(folder / "metrics.csv")
    predictions = _predictions(folder / "predictions.csv", results, config)
    attention = _json(folder / "attention.json", ATTENTION)
    comparison = _json(folder / "comparison.json", COMPARISON)
    if all(part is None for part in (monitor, results, metrics, predictions, comparison)):
        raise InputError(
            f"{folder}: there is nothing to report here: expected results.json (a run of `excora fit`) or "
            f"comparison.json (of `excora compare`)"
        )
    records = None if monitor is None else monitor["records"]
    return Content(config, metrics, records, predictions, results, attention, comparison)


def _json(path: Path, *shapes: Any, undefined: bool = False) -> dict[str, Any] | None:
    """A checked JSON file. With ``undefined`` a NaN or infinity counts as null: the records of a run that diverged."""
    if not path.exists():
        return None

    def constant(name: str) -> None:
        if not undefined:
            raise ValueError(f"{name} is not a JSON number")

    try:
        content = json.loads(path.read_text("utf-8"), parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not readable as JSON: {error}; write the folder again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    for shape in shapes:
        check(path, content, shape)
    return content


def _columns(path: Path) -> dict[str, list[str]]:
    """A CSV file by columns, as text."""
    try:
        content = path.read_bytes().decode("utf-8")
        header, *rows = csv.reader(io.StringIO(content, newline=""), strict=True)
    except (ValueError, csv.Error) as error:  # an empty file has no header to unpack
        raise InputError(
            f"{path}: this is not readable as CSV with a header: {error}; write the folder again"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if not content.endswith("\n"):
        raise InputError(
            f"{path}: the last row must end with a line break: the file is cut off; write the folder again"
        )
    if len(set(header)) < len(header):
        raise InputError(f"{path}: column names must differ, got {', '.join(map(repr, header))}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise InputError(f"{path}: row {number} must have {len(header)} cells, got {len(row)}: the file is cut off")
    return dict(zip(header, map(list, zip(*rows, strict=True)) if rows else ([] for _ in header), strict=True))


def _need(path: Path, table: dict[str, list[str]], names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in table]
    if missing:
        have = ", ".join(map(repr, table))
        raise InputError(f"{path}: the column {missing[0]!r} is missing, got {have}; write the folder again")


def _numbers(path: Path, table: dict[str, list[str]], name: str) -> Numbers:
    """The column as numbers; None for an empty cell and for what is not finite."""
    values: Numbers = []
    for number, cell in enumerate(table[name], 2):
        try:
            value = float(cell or "nan")
        except ValueError:
            raise InputError(f"{path}: column {name!r} must hold numbers, got {cell[:40]!r} in row {number}") from None
        values.append(value if abs(value) < LARGEST else None)
    return values


def _full(path: Path, table: dict[str, list[str]], name: str) -> Array:
    """The column as finite numbers, all of them there."""
    values = _numbers(path, table, name)
    if None in values:
        row = values.index(None)
        cell = table[name][row]
        raise InputError(f"{path}: column {name!r} must hold finite numbers, got {cell[:40]!r} in row {row + 2}")
    return np.array(values, dtype=np.float64)


def _metrics(path: Path) -> dict[str, Numbers] | None:
    if not path.exists():
        return None
    table = _columns(path)
    _need(path, table, METRICS)
    metrics: dict[str, Numbers] = {name: _numbers(path, table, name) for name in METRICS}
    metrics["epoch"] = _full(path, table, "epoch").tolist()
    return metrics


def _predictions(path: Path, results: dict[str, Any] | None, config: dict[str, Any] | None) -> Predictions | None:
    if not path.exists():
        return None
    table = _columns(path)
    several = [name.removeprefix("target:") for name in table if name.startswith("target:")]
    known = Content(config, None, None, None, results, None, None).targets
    pairs = (
        {name: (f"target:{name}", f"prediction:{name}") for name in several}
        if several
        else {known[0] if len(known) == 1 else "target": ("target", "prediction")}
    )
    _need(path, table, ("id", "part", *(column for pair in pairs.values() for column in pair)))
    odd = set(table["part"]) - {"validation", "test"}
    if odd:
        raise InputError(f"{path}: column 'part' must hold 'validation' or 'test', got {sorted(odd)[0][:40]!r}")
    part = "test" if "test" in table["part"] else "validation"
    keep = np.array([name == part for name in table["part"]], dtype=bool)
    truth = {name: _full(path, table, pair[0])[keep] for name, pair in pairs.items()}
    guess = {name: _full(path, table, pair[1])[keep] for name, pair in pairs.items()}
    text = {
        name: [cell for cell, k in zip(table[name], keep, strict=True) if k]
        for name in ("id", "group")
        if name in table
    }
    return Predictions(part, text["id"], text.get("group"), truth, guess)
