"""A table's file as samples: which columns are features, and whether their cells will do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from excora.data.cells import LARGEST, disguised, kind_of, numbers
from excora.data.dataset import Dataset
from excora.data.delimited import UNNAMED
from excora.data.frames import FIRST_ROW, open_frame
from excora.data.roles import Roles
from excora.data.sheet import Sheet
from excora.data.table.content import Table
from excora.errors import InputError


def read_table(path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset:
    """A row a sample."""
    sheet, features, notes = open_table(path, roles, labelled=labelled, problems=problems)
    wanted = roles.id and (labelled or roles.id in sheet.frame)
    ids = sheet.names(roles.id, "id", unique=True) if roles.id and wanted else None
    described = sheet.described(roles, labelled=labelled)
    unusable = {name: why for name in features if (why := fault(sheet, name, labelled))}
    if labelled:
        for why in unusable.values():
            sheet.complain(why)
    good = [name for name in features if name not in unusable]
    ids = sheet.rows.astype(str).astype(object) if ids is None else ids
    return Dataset(ids, roles.target, content=Table(sheet.frame[good], unusable), notes=notes, **described)


def open_table(
    path: Path, roles: Roles, *, labelled: bool, problems: list[str]
) -> tuple[Sheet, list[str], tuple[str, ...]]:
    """The sheet, the names of the columns that play no part and so are features, and notes; for long tables too."""
    frame, notes = open_frame(path, text=roles.text, writing=roles.writing)
    if roles.labels is not None:
        problems.append(f"{path}: labels= describes a folder of bags; this is a table, which holds its own labels")
    if not len(frame):
        raise InputError(f"{path}: there is a header but no row of data")
    sheet = Sheet(str(path), frame, np.arange(len(frame)) + FIRST_ROW, problems=problems)
    if labelled:
        for name in roles.drop:
            sheet.has(name, "drop")
    others = (roles.group, roles.time, roles.weight, roles.bag, roles.time_within, roles.id, *roles.drop)
    for name in set(roles.target).intersection(others):
        sheet.complain(f"column {name!r} is the target and cannot play another part")
    nameless = [name for name in frame.columns if name.startswith(UNNAMED)]
    features = [name for name in frame.columns if name not in {*roles.columns, *roles.drop, *nameless}]
    if not features:
        sheet.complain("there is no column left to predict from")
    # What is predicted later is read as the training part was, column by column: only there it is known what each is.
    gaps = sheet.fill_gaps(
        [*roles.target, *([roles.weight] if roles.weight else []), *features] if labelled else roles.target
    )
    left = [f"a column without a name is left out: {name}" for name in nameless]
    text = {name: cell for name in features if labelled and (cell := disguised(sheet.frame[name]))}
    left += [
        f"column {name!r} looks like numbers, such as {cell!r}, but is read as text: write them plainly, as 1234.5, "
        "if they are numbers"
        for name, cell in text.items()
    ]
    return sheet, features, (*notes, *left, *gaps)


def fault(sheet: Sheet, name: str, labelled: bool) -> str | None:
    """Infinite numbers, cells that are no scalars and, before training, numbers with a few words among them."""
    column = sheet.frame[name]
    kind = kind_of(column)
    if kind == "other":
        return f"column {name!r} holds neither numbers, text, booleans nor dates: drop it or change it"
    if kind not in ("number", "category"):
        return None
    values = numbers(column)
    there = column.notna().to_numpy()
    wrong = there & (~(np.abs(values) <= LARGEST) if kind == "number" else np.isnan(values))
    # A few words in a column of numbers are slips; kept, they would turn the whole column into categories.
    if not wrong.any() or (kind == "category" and not (labelled and wrong.sum() <= 0.1 * there.sum())):
        return None
    cell = column.iloc[int(np.flatnonzero(wrong)[0])]
    return (
        f"column {name!r} must hold finite numbers or empty cells, got {str(cell)[:40]!r} {sheet.first(wrong)}: "
        f"correct it, leave the cell empty, or drop the column"
    )
