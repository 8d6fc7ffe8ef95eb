"""Files to diagnose: predictions as CSV or Parquet, or a run that a PlateauMonitor wrote as JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excora.data.frames import FIRST_ROW, FORMATS, is_table, read_frame
from excora.diagnosis.report import FEWEST, Diagnosis, diagnose
from excora.diagnosis.trend import detect_plateau
from excora.diagnosis.verdicts import verdict, with_validation
from excora.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def diagnose_file(
    path: str | Path,
    *,
    prediction: str = "prediction",
    target: str = "target",
    epoch: str | None = None,
    group: str | None = None,
    noise_ceiling: float | None = None,
) -> Diagnosis:
    """Diagnose a file: CSV, TSV (also .gz, .xz) or Parquet, a row a sample, or the JSON of ``PlateauMonitor.to_json``.

    Or the folder of a run, where validation has its say too.

    ``prediction``, ``target``, ``epoch``, ``group`` name the columns; ``epoch`` and ``group`` default to columns of
    that name, if there are any. One target a call: with several, one pair of columns each.

    A file that is missing, empty, malformed, too short, or holds something that is no finite number raises an
    InputError that names file, column and row. Rows count as in the file: a CSV's header is row 1. Whoever wants rows
    left out must leave them out: a PCC over silently dropped rows would be a PCC of something else.
    """
    path = Path(path)
    if path.is_dir():
        return _folder(path, noise_ceiling)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if path.suffix == ".json":
        return _run(path, noise_ceiling)
    if not is_table(path):
        raise InputError(f"{path}: expected a name ending in {', '.join(FORMATS)} or .json, got {path.name!r}")
    table = read_frame(path)
    first = FIRST_ROW
    columns = {"prediction": prediction, "target": target, "epoch": epoch or "epoch", "group": group or "group"}
    wanted = {role for role, name in (("epoch", epoch), ("group", group)) if name is not None}
    for role, name in columns.items():
        if name not in table.columns and (role in ("prediction", "target") or role in wanted):
            raise InputError(
                f"{path}: there is no column {name!r}, only {', '.join(map(repr, table.columns))}; "
                f"name the column of the {role} with {role}="
            )
    if len(table) < FEWEST:
        raise InputError(f"{path}: a correlation takes at least {FEWEST} rows, got {len(table)}")
    numbers = {
        role: _finite(path, table, name, first) for role, name in columns.items() if role != "group" and name in table
    }
    return diagnose(
        numbers["prediction"],
        numbers["target"],
        _labels(path, table, columns["group"], first) if columns["group"] in table else None,
        numbers.get("epoch"),
        noise_ceiling=noise_ceiling,
    )


def _finite(path: Path, table: pd.DataFrame, name: str, first: int) -> Any:
    """The column as floats; the first cell that is no finite number is named."""
    import pandas as pd

    column = table[name]
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        cell = column.iloc[bad[0]]
        what = "an empty cell" if pd.isna(cell) else repr(cell if isinstance(cell, str) else float(cell))
        raise InputError(
            f"{path}: column {name!r} must hold finite numbers, got {what} in row {bad[0] + first} "
            f"({len(bad)} such rows): correct them or leave those rows out"
        )
    return numbers


def _labels(path: Path, table: pd.DataFrame, name: str, first: int) -> Any:
    column = table[name]
    empty = np.flatnonzero(column.isna())
    if len(empty):
        raise InputError(
            f"{path}: column {name!r} must name a group in every row, got an empty cell in row {empty[0] + first} "
            f"({len(empty)} such rows)"
        )
    return column.astype(str).to_numpy(dtype=object)


def _folder(path: Path, noise_ceiling: float | None) -> Diagnosis:
    """The verdict on a run of ``excora fit``; until that has ended, of its training part alone."""
    if not (path / "monitor.json").is_file():
        raise InputError(f"{path}: there is no monitor.json in this folder: give a run folder of `excora fit`")
    found, ended = _run(path / "monitor.json", noise_ceiling), path / "results.json"
    if not ended.is_file():
        return found
    content = _json(ended)
    known = content if isinstance(content, dict) else {}
    stopped, epochs, best = (known.get(name) for name in ("stopped", "epochs", "best_epoch"))
    if not isinstance(stopped, str) or not isinstance(epochs, int) or not isinstance(best, int):
        raise InputError(
            f"{ended}: expected stopped, epochs and best_epoch as `excora fit` writes them, got {stopped!r}, "
            f"{epochs!r} and {best!r}"
        )
    return dataclasses.replace(found, verdict=with_validation(found.verdict, stopped, epochs, best))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not readable as JSON: {error}") from None


def _run(path: Path, noise_ceiling: float | None) -> Diagnosis:
    """The verdict on a recorded run."""
    content = _json(path)
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) and "pcc" in r for r in records):
        raise InputError(f"{path}: expected the JSON that PlateauMonitor.to_json writes, with a list of records")
    plateau = detect_plateau([r["pcc"] for r in records], [r.get("mse") for r in records])
    known = {name: value for name, value in records[-1].items() if value is not None}
    found = verdict(records, noise_ceiling=noise_ceiling)
    return Diagnosis(found, "full run", {"last epoch": known}, None if plateau.pcc is None else plateau)
