"""Run folders and recorded runs to diagnose."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from excora.diagnosis.report import Diagnosis, diagnose_run
from excora.errors import InputError
from excora.models import models
from excora.settings import Setup
from excora.stats.intervals import Interval
from excora.theory.depth import sizing


def diagnose_folder(path: Path, noise_ceiling: float | None) -> Diagnosis:
    """The verdict on a run of ``excora fit``; until that has ended, of its training part alone."""
    if not (path / "monitor.json").is_file():
        raise InputError(f"{path}: there is no monitor.json in this folder: give a run folder of `excora fit`")
    records, ended = _records(path / "monitor.json"), path / "results.json"
    if not ended.is_file():
        return diagnose_run(records, [], noise_ceiling=noise_ceiling)
    content = _json(ended)
    known = content if isinstance(content, dict) else {}
    epochs, best = known.get("epochs"), known.get("best_epoch")
    if not isinstance(epochs, int) or not isinstance(best, int):
        raise InputError(
            f"{ended}: expected epochs and best_epoch as `excora fit` writes them, got {epochs!r} and {best!r}"
        )
    try:
        seen = {"held": _held(known), "test": _test(known), "peers": known.get("baselines") or ()}
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise InputError(f"{ended}: this is not what `excora fit` writes: {type(error).__name__} {error}") from None
    found = diagnose_run(records, _curve(path / "metrics.csv"), kept=best, noise_ceiling=noise_ceiling, **seen)
    return dataclasses.replace(found, notes=(*found.notes, *_depth(path / "config.json")))


def _depth(path: Path) -> tuple[str, ...]:
    """On which side of the threshold the run's stack of attention is; nothing for a model without one."""
    content = _json(path) if path.is_file() else None
    asked = content.get("settings") if isinstance(content, dict) else None
    try:
        setup = Setup.from_dict(asked or {})
    except InputError:  # of another version, or of a model that is not installed
        return ()
    stack = models[setup.model].attends(setup.options) if asked else None
    return () if stack is None else (f"depth: {sizing(depth=stack[0], width=stack[1])}",)


def diagnose_records(path: Path, noise_ceiling: float | None) -> Diagnosis:
    """The verdict on what ``PlateauMonitor.to_json`` wrote."""
    return diagnose_run(_records(path), [], noise_ceiling=noise_ceiling)


def _held(known: dict[str, Any]) -> dict[str, Any] | None:
    """The record of the kept epoch on validation; of a run of an older version what its scores say."""
    held = known.get("held")
    if held is not None:
        if not isinstance(held, dict) or not all(isinstance(held.get(name), int | float | None) for name in held):
            raise ValueError(f"held must be a record of numbers, got {held!r}")
        return held
    scores = [one for one in known.get("validation", {}).values() if one.get("pcc") is not None]
    if not scores:
        return None
    means = {name: sum(float(one[name]) for one in scores) / len(scores) for name in ("pcc", "mse")}
    return {**means, "bags": int(known["counts"]["validation"])}


def _test(known: dict[str, Any]) -> Interval | None:
    """PCC of the test part, mean over its targets."""
    names = ("pcc", "low", "high")
    scores = [one for one in known.get("test", {}).values() if all(one.get(name) is not None for name in names)]
    if not scores:
        return None
    value, low, high = (sum(float(one[name]) for one in scores) / len(scores) for name in names)
    return Interval(value, low, high, "mean over targets")


def _curve(path: Path) -> list[dict[str, float]]:
    """The validation curve of metrics.csv; none if it has none."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        found = [{name: float(row[f"validation_{name}"]) for name in ("pcc", "mse")} for row in rows]
    except (KeyError, TypeError, ValueError):
        return []
    return found if all(math.isfinite(row["mse"]) for row in found[:-1]) else []


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not readable as JSON: {error}") from None


def _records(path: Path) -> list[dict[str, Any]]:
    """The records of a run."""
    content = _json(path)
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) and "pcc" in r for r in records):
        raise InputError(f"{path}: expected the JSON that PlateauMonitor.to_json writes, with a list of records")
    return records
