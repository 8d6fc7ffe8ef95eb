"""Files to samples: tables, long tables, ragged .npz and folders of bags, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from excora.data.bags import ArrayBags
from excora.data.bagsets import read_folder, read_ragged
from excora.data.dataset import Dataset
from excora.data.roles import Roles, Sheet
from excora.data.tables import FORMATS, LARGEST, UNNAMED, first_row, is_table, kind_of, numbers, read_frame
from excora.errors import DataError, InputError


def read(
    path: str | Path,
    *,
    target: str | Iterable[str] = (),
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    bag: str | None = None,
    labels: str | Path | None = None,
    id: str | None = None,
    drop: str | Iterable[str] = (),
    labelled: bool = True,
) -> Dataset:
    """Samples from a table, a long table (``bag`` names the column of the bags), a ragged .npz or a folder of bags.

    ``target``, ``group``, ``time``, ``weight``, ``id`` name the columns that play these parts, ``drop`` columns to
    leave out; all others are features. ``labels`` is the table that describes the files of a folder. The layouts
    are described in docs/data.md. With ``labelled`` False (data to predict) none of these columns need be there.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("x,colour,y\\n1,red,2.5\\n2,blue,3.5\\n")
    >>> data = read(path, target="y")
    >>> len(data), list(data.frame), data.target.tolist(), data.ids.tolist()
    (2, ['x', 'colour'], [[2.5], [3.5]], ['2', '3'])

    Everything found wrong is raised at once, as a :class:`DataError` with a line for each problem. The elements of
    bags in files are read later, when they are needed; :func:`excora.data.validation.validate` reads them all.
    """
    roles = Roles.of(
        target=target, group=group, time=time, weight=weight, bag=bag, labels=labels, id=id, drop=drop
    )  # fmt: skip
    problems: list[str] = []
    dataset = gather(path, roles, labelled, problems)
    if problems or dataset is None:
        raise DataError(problems)
    return dataset


def gather(path: str | Path, roles: Roles, labelled: bool, problems: list[str]) -> Dataset | None:
    """:func:`read` with the problems noted in ``problems``; None where nothing can be built in spite of them."""
    try:
        found = Path(path)
        if not found.exists():
            raise InputError(f"{found}: there is no such file or folder")
        if found.is_dir():
            return read_folder(found, roles, labelled, problems)
        if found.suffix.lower() == ".npz":
            return read_ragged(found, roles, labelled, problems)
        if not is_table(found):
            raise InputError(
                f"{found}: expected a table ({', '.join(FORMATS)}), a ragged .npz or a folder of bags, got "
                f"{found.name!r}"
            )
        return _read_table(found, roles, labelled, problems)
    except DataError as error:
        problems.extend(error.problems)
    except InputError as error:
        problems.append(str(error))
    except OSError as error:  # a folder without permission, a disk that is gone
        problems.append(f"{path}: this cannot be read: {error}")
    return None


def _read_table(path: Path, roles: Roles, labelled: bool, problems: list[str]) -> Dataset | None:
    frame = read_frame(path, text=roles.text)
    if roles.labels is not None:
        problems.append(f"{path}: labels= describes a folder of bags; this is a table, which holds its own labels")
    if not len(frame):
        raise InputError(f"{path}: there is a header but no row of data")
    sheet = Sheet(str(path), frame, np.arange(len(frame)) + first_row(path), problems=problems)
    if labelled:
        for name in roles.drop:
            sheet.has(name, "drop")
    for name in set(roles.target) & {roles.group, roles.time, roles.weight, roles.bag, roles.id, *roles.drop}:
        sheet.complain(f"column {name!r} is the target and cannot play another part")
    nameless = [name for name in frame.columns if name.startswith(UNNAMED)]
    features = [name for name in frame.columns if name not in {*roles.columns, *roles.drop, *nameless}]
    notes = tuple(f"a column without a name is left out: {name}" for name in nameless)
    if not features:
        sheet.complain("there is no column left to predict from")
    if roles.bag is not None:
        return _read_long(sheet, roles, features, notes, labelled)
    ids = sheet.names(roles.id, "id", unique=True) if roles.id and (labelled or roles.id in frame) else None
    described = sheet.described(roles, labelled=labelled)
    _check_features(sheet, features, labelled)
    ids = sheet.rows.astype(str).astype(object) if ids is None else ids
    return Dataset(ids, roles.target, frame=frame[features], notes=notes, **described)


def _check_features(sheet: Sheet, names: list[str], labelled: bool) -> None:
    """Infinite numbers, cells that are no scalars and, before training, numbers with a few words among them."""
    for name in names:
        column = sheet.frame[name]
        kind = kind_of(column)
        if kind == "other":
            sheet.complain(f"column {name!r} holds neither numbers, text, booleans nor dates: drop it or change it")
        if kind not in ("number", "category"):
            continue
        values = numbers(column)
        there = column.notna().to_numpy()
        wrong = there & (~(np.abs(values) <= LARGEST) if kind == "number" else np.isnan(values))
        # A few words in a column of numbers are slips; kept, they would turn the whole column into categories.
        if wrong.any() and (kind == "number" or (labelled and wrong.sum() <= 0.1 * there.sum())):
            cell = column.iloc[int(np.flatnonzero(wrong)[0])]
            sheet.complain(
                f"column {name!r} must hold finite numbers or empty cells, got {str(cell)[:40]!r} "
                f"{sheet.first(wrong)}: correct it, leave the cell empty, or drop the column"
            )


def _read_long(
    sheet: Sheet, roles: Roles, features: list[str], notes: tuple[str, ...], labelled: bool
) -> Dataset | None:
    """A row an element: the rows of one bag need not stand together; bags come in the order they first appear."""
    assert roles.bag is not None
    names = sheet.names(roles.bag, "bag")
    found = [_element_feature(sheet, name) for name in features]
    if names is None:
        return None
    ids, first, codes = np.unique(names.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    codes, first, ids = rank[codes], first[order], ids[order].astype(object)
    for role in (*roles.target, roles.group, roles.time, roles.weight):
        if role is not None and role in sheet.frame and labelled:
            _check_constant(sheet, role, codes, first, ids)
    heads = Sheet(sheet.source, sheet.frame.iloc[first], sheet.rows[first], problems=sheet.problems)
    described = heads.described(roles, labelled=labelled)
    columns = [values for values in found if values is not None]
    if len(columns) < len(features) or not columns:
        return None
    rows = np.argsort(codes, kind="stable")
    bags = ArrayBags(np.stack(columns, 1)[rows], np.bincount(codes), names=ids.tolist())
    return Dataset(ids, roles.target, bags=bags, features=tuple(features), notes=notes, **described)


def _element_feature(sheet: Sheet, name: str) -> Any:
    """A feature of elements in float32: a finite number in every row."""
    column = sheet.frame[name]
    values = numbers(column)
    bad = ~(np.abs(values) <= np.finfo(np.float32).max)
    if bad.any():
        cell = column.iloc[int(np.flatnonzero(bad)[0])]
        sheet.complain(
            f"column {name!r} must be a finite number in every row of a bag, got {str(cell)[:40]!r} "
            f"{sheet.first(bad)}: correct it, encode it as numbers, or drop the column"
        )
        return None
    return values.astype(np.float32)


def _check_constant(sheet: Sheet, name: str, codes: Any, first: Any, ids: Any) -> None:
    """A column that describes the bag must say the same in each of its rows."""
    column = sheet.frame[name]
    if kind_of(column) == "other":
        return  # cells that cannot be compared are a problem of their own
    cells = column.astype(object).to_numpy()
    empty = column.isna().to_numpy()
    expected = cells[first][codes]
    wrong = np.where(empty | empty[first][codes], empty != empty[first][codes], cells != expected).astype(bool)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        sheet.complain(
            f"column {name!r} must be the same in every row of a bag, got {str(expected[place])[:40]!r} and "
            f"{str(cells[place])[:40]!r} in bag {ids[codes[place]]!r} {sheet.first(wrong)}"
        )
