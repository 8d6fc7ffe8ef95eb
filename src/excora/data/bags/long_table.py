"""Long tables: a row an element, and a column that says which bag it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.content import BagSet, ElementTable
from excora.data.bags.stores import ArrayBags
from excora.data.cells import kind_of, numbers
from excora.data.dataset import Dataset, Index
from excora.data.roles import Roles
from excora.data.sheet import Objects, Sheet
from excora.data.table.reading import fault, open_table


def read_long_table(path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
    """The rows of one bag need not stand together; bags come in the order they first appear."""
    assert roles.bag is not None
    sheet, features, notes = open_table(path, roles, labelled=labelled, problems=problems)
    names = sheet.names(roles.bag, "bag")
    spans = None
    if roles.time_within is not None:
        if (names is None) or (spans := _spans(sheet, roles.time_within, names)) is None:
            return None
        features = [*features, roles.time_within]
    columns, unusable = _elements(sheet, features)
    faults = {name: why for name in unusable if (why := fault(sheet, name, labelled))}
    if labelled:
        for why in faults.values():
            sheet.complain(why)
    if names is None:
        return None
    ids, first, codes = first_rows(names)
    if labelled:
        check_described(sheet, roles, codes, first, ids)
    heads = Sheet(sheet.source, sheet.frame.iloc[first], sheet.rows[first], problems=problems)
    described = heads.described(roles, labelled=labelled)
    if not columns and len(faults) == len(features):
        problems += [] if labelled else [f"{path}: {why}" for why in faults.values()]
        return None
    lengths = np.bincount(codes)
    order = np.argsort(codes, kind="stable") if spans is None else np.lexsort((spans, codes))
    numeric = [np.empty((len(order), 0), np.float32), *(column[:, None] for column in columns.values())]
    bags = ArrayBags(np.concatenate(numeric, 1)[order], lengths, names=ids.tolist())
    table = None
    if unusable or not labelled:  # gaps, categories or dates here, or in the training that is asked to predict it
        table = ElementTable(sheet.frame[[name for name in features if name not in faults]], order, lengths, faults)
    content = BagSet(bags, tuple(columns), unusable, table, roles.time_within)
    return Dataset(ids, roles.target, content=content, notes=notes, **described)


def _spans(sheet: Sheet, name: str, bags: Objects) -> NDArray[np.float64] | None:
    """The time of each row before the last of its bag, at most 0, which takes the place of the column; dates as days.

    In double precision: seconds since 1970 have too many digits for a feature.
    """
    times = sheet.times(name)
    if times is None:
        return None
    _, codes = np.unique(bags.astype(str), return_inverse=True)
    last = np.full(codes.max() + 1, -np.inf)
    np.maximum.at(last, codes, times)
    spans: NDArray[np.float64] = times - last[codes]
    sheet.frame = sheet.frame.assign(**{name: spans})
    return spans


def first_rows(names: Objects) -> tuple[Objects, Index, Index]:
    """The bags in the order of their first rows: id and first row of each, and the bag of each row."""
    ids, first, codes = np.unique(names.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return ids[order].astype(object), first[order], rank[codes]


def _elements(sheet: Sheet, names: list[str]) -> tuple[dict[str, NDArray[np.float32]], dict[str, str]]:
    """The columns that are a finite number of single precision in every row, and why the others are none."""
    columns, unusable = dict[str, NDArray[np.float32]](), dict[str, str]()
    for name in names:
        values = numbers(sheet.frame[name])
        bad = ~(np.abs(values) <= np.finfo(np.float32).max)
        if not bad.any():
            columns[name] = values.astype(np.float32)
            continue
        cell = sheet.frame[name].iloc[int(np.flatnonzero(bad)[0])]
        unusable[name] = (
            f"column {name!r} must be a finite number in every row of a bag, got {str(cell)[:40]!r} "
            f"{sheet.first(bad)}: correct it, encode it as numbers, or drop the column"
        )
    return columns, unusable


def check_described(sheet: Sheet, roles: Roles, codes: Any, first: Any, ids: Any) -> None:
    """What describes a bag must say the same in each of its rows."""
    for name in (*roles.target, roles.group, roles.time, roles.weight):
        if name is not None and name in sheet.frame:
            _check_constant(sheet, name, codes, first, ids)


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
