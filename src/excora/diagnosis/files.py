"""Files to diagnose: predictions as CSV or Parquet, or a run that a PlateauMonitor wrote as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from excora.data.frames import FIRST_ROW, FORMATS, is_table, read_frame
from excora.diagnosis.folders import diagnose_folder, diagnose_records
from excora.diagnosis.report import FEWEST, Diagnosis, diagnose, together
from excora.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: The column by which a run's predictions.csv tells validation from test.
PART = "part"


def diagnose_file(
    path: str | Path,
    *,
    prediction: str = "prediction",
    target: str = "target",
    epoch: str | None = None,
    group: str | None = None,
    part: str | None = None,
    noise_ceiling: float | None = None,
) -> Diagnosis:
    """Diagnose a file: CSV, TSV (also .gz, .xz) or Parquet, a row a sample, or the JSON of ``PlateauMonitor.to_json``.

    Or the folder of a run, where validation has its say too.

    ``prediction``, ``target``, ``epoch``, ``group`` name the columns; ``epoch`` and ``group`` default to columns of
    that name, if there are any. In a file with a column "part", as `excora fit` writes it, each part is judged by
    itself, or the one named by ``part``; in one with columns "prediction:NAME" and "target:NAME", each target, over the
    rows that have its label. ``Diagnosis.parts`` then has them all, and the verdict is that of the test part, if there
    is one, and of all targets alike.

    A file that is missing, empty, malformed, too short, or holds something that is no finite number raises an
    InputError that names file, column and row. Rows count as in the file: a CSV's header is row 1. Whoever wants rows
    left out must leave them out: a PCC over silently dropped rows would be a PCC of something else.
    """
    path = Path(path)
    if path.is_dir():
        return diagnose_folder(path, noise_ceiling)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if path.suffix == ".json":
        return diagnose_records(path, noise_ceiling)
    if not is_table(path):
        raise InputError(f"{path}: expected a name ending in {', '.join(FORMATS)} or .json, got {path.name!r}")
    columns = {"prediction": prediction, "target": target, "epoch": epoch or "epoch", "group": group or "group"}
    wanted = {role for role, name in (("epoch", epoch), ("group", group)) if name is not None}
    file = File(path, read_frame(path), FIRST_ROW, columns)
    pairs = file.pairs(wanted)
    found: dict[str, Diagnosis] = {}
    for place, rows in file.parts(part).items():
        for name, (x, y) in pairs.items():
            label = ", ".join(filter(None, (f"part {place!r}" if place else "", f"target {name!r}" if name else "")))
            found[label] = file.diagnose(rows, x, y, label, noise_ceiling, labelled=bool(name or place))
    return together(found, len(file.table))


class File(NamedTuple):
    """A table of predictions, the number of its first row, and its columns by role."""

    path: Path
    table: pd.DataFrame
    first: int
    columns: dict[str, str]

    def pairs(self, wanted: set[str]) -> dict[str, tuple[str, str]]:
        """The columns of prediction and target, by target; one target has no name."""
        x, y = self.columns["prediction"], self.columns["target"]
        names = [str(c)[len(x) + 1 :] for c in self.table.columns if str(c).startswith(f"{x}:")]
        several = {name: (f"{x}:{name}", f"{y}:{name}") for name in names if f"{y}:{name}" in self.table}
        needed = wanted if several and x not in self.table else {"prediction", "target", *wanted}
        for role, name in self.columns.items():
            if name not in self.table.columns and role in needed:
                raise InputError(
                    f"{self.path}: there is no column {name!r}, only {', '.join(map(repr, self.table.columns))}; "
                    f"name the column of the {role} with {role}="
                )
        return several if several and x not in self.table else {"": (x, y)}

    def parts(self, only: str | None) -> dict[str, Any]:
        """Which rows belong to each part, test first; all under "" where no column says so."""
        if PART not in self.table.columns or PART in self.columns.values():
            if only is not None:
                raise InputError(f"{self.path}: there is no column {PART!r} to find the part {only!r} in")
            return {"": np.arange(len(self.table))}
        labels = _labels(self.path, self.table, PART, self.first)
        names = sorted(set(labels), key=lambda name: (name != "test", name != "validation", name))
        if only is not None and only not in names:
            raise InputError(f"{self.path}: there is no part {only!r}, only {', '.join(map(repr, names))}")
        return {name: np.flatnonzero(labels == name) for name in names if only in (None, name)}

    def diagnose(
        self, rows: Any, x: str, y: str, label: str, noise_ceiling: float | None, *, labelled: bool
    ) -> Diagnosis:
        """One target on the rows of one part; ``labelled``: it is a run's, where a label may be unknown."""
        table = self.table
        if labelled:
            rows = rows[table[y].notna().to_numpy()[rows]]
        if len(rows) < FEWEST:
            where = f" of {label}" if label else ""
            raise InputError(f"{self.path}: a correlation takes at least {FEWEST} rows{where}, got {len(rows)}")
        columns = {"prediction": x, "target": y, "epoch": self.columns["epoch"]}
        numbers = {
            role: _finite(self.path, table, name, self.first, rows) for role, name in columns.items() if name in table
        }
        group = self.columns["group"]
        groups = _labels(self.path, table, group, self.first)[rows] if group in table else None
        return diagnose(
            numbers["prediction"], numbers["target"], groups, numbers.get("epoch"), noise_ceiling=noise_ceiling
        )


def _finite(path: Path, table: pd.DataFrame, name: str, first: int, rows: Any) -> Any:
    """The ``rows`` of a column as floats; the first cell that is no finite number is named."""
    import pandas as pd

    column = table[name]
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = rows[~np.isfinite(numbers[rows])]
    if len(bad):
        cell = column.iloc[bad[0]]
        what = "an empty cell" if pd.isna(cell) else repr(cell if isinstance(cell, str) else float(cell))
        raise InputError(
            f"{path}: column {name!r} must hold finite numbers, got {what} in row {bad[0] + first} "
            f"({len(bad)} such rows): correct them or leave those rows out"
        )
    return numbers[rows]


def _labels(path: Path, table: pd.DataFrame, name: str, first: int) -> Any:
    column = table[name]
    empty = np.flatnonzero(column.isna())
    if len(empty):
        raise InputError(
            f"{path}: column {name!r} must name a group in every row, got an empty cell in row {empty[0] + first} "
            f"({len(empty)} such rows)"
        )
    return column.astype(str).to_numpy(dtype=object)
