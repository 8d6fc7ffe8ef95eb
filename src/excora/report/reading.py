"""The files of a run or comparison folder as plain values; one that is broken is an InputError that names it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from excora.errors import InputError
from excora.report.checking import LARGEST

Columns = dict[str, list[str]]


def read_json(path: Path, *, undefined: bool = False) -> Any:
    """What the file holds. With ``undefined`` it may hold NaN and infinity: the records of a run that diverged."""

    def constant(name: str) -> float:
        if not undefined:
            raise ValueError(f"{name} is not a JSON number")
        return float(name)

    try:
        return json.loads(path.read_text("utf-8"), parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not readable as JSON: {error}; write the folder again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def read_columns(path: Path) -> Columns:
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
        raise InputError(f"{path}: the last row must end with a line break: it is cut off; write the folder again")
    if len(set(header)) < len(header):
        raise InputError(f"{path}: column names must differ, got {', '.join(map(repr, header))}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise InputError(f"{path}: row {number} must have {len(header)} cells, got {len(row)}: the file is cut off")
    return dict(zip(header, map(list, zip(*rows, strict=True)) if rows else ([] for _ in header), strict=True))


def numbers(path: Path, table: Columns, name: str, *, finite: bool = False, gaps: bool = True) -> list[float]:
    """A column as numbers, NaN for an empty cell. ``finite``: nothing but finite numbers and, with ``gaps``, gaps."""
    values = []
    for row, cell in enumerate(table[name], 2):
        try:
            value = float(cell or "nan")
        except ValueError:
            raise InputError(f"{path}: column {name!r} must hold numbers, got {cell[:40]!r} in row {row}") from None
        if finite and not abs(value) < LARGEST and not (gaps and not cell):
            raise InputError(f"{path}: column {name!r} must hold finite numbers, got {cell[:40]!r} in row {row}")
        values.append(value if abs(value) < LARGEST else float("nan"))
    return values
