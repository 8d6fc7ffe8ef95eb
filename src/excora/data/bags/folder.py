"""Folders with one file a bag, and the table of labels beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from excora.data.bags.content import BagSet
from excora.data.bags.files import FORMATS, Header, read_header
from excora.data.bags.long_table import check_described, first_rows
from excora.data.bags.stores import Bags, FileBags, JoinedBags
from excora.data.cells import texts
from excora.data.dataset import Dataset
from excora.data.delimited import Writing
from excora.data.frames import FIRST_ROW, Found, open_frame
from excora.data.roles import Roles
from excora.data.sheet import Objects, Sheet, counted, note_all
from excora.errors import InputError


def read_folder(path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
    """One file a bag, or with ``roles.bag`` several, named by its id; only the headers are read here."""
    files = _bag_files(path, problems)
    listed = Listed(np.array(sorted(files), object), [[name] for name in sorted(files)])
    if roles.labels is None and (labelled or roles.bag is not None):
        raise InputError(f"{path}: a folder of bags needs labels=, a table with a row for each file")
    if roles.labels is not None:
        listed = _read_labels(path, roles, files, labelled, problems)
    names = [name for part in listed.files for name in part]
    headers = _headers([files[name] for name in names], problems)
    if problems:
        return None
    sizes = np.array([h.rows for h in headers], np.intp)
    bags: Bags = FileBags([files[name] for name in names], [h.key for h in headers], sizes, headers[0].width)
    if len(names) > len(listed.files):
        place = {name: k for k, name in enumerate(names)}
        bags = JoinedBags(bags, [[place[name] for name in part] for part in listed.files])
    return Dataset(listed.ids, roles.target, content=BagSet(bags), notes=listed.notes, **listed.described)


class Listed(NamedTuple):
    """What a table of labels says: the bags, the files of each, and labels and roles."""

    ids: Objects
    files: list[list[str]]
    notes: tuple[str, ...] = ()
    described: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it)


def _bag_files(path: Path, problems: list[str]) -> dict[str, Path]:
    """The files by their stem, the id of the bag."""
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        if file.suffix.lower() not in FORMATS or file.name.startswith(".") or not file.is_file():
            continue
        if file.stem in found:
            problems.append(f"{file}: there is {found[file.stem].name} as well; a bag has one file")
        found[file.stem] = file
    if not found:
        inner = [name for name in ("h5_files", "pt_files") if (path / name).is_dir()]
        hint = f"; did you mean {path / inner[0]}?" if inner else ""
        raise InputError(f"{path}: there is no file of features ({', '.join(FORMATS)}) in this folder{hint}")
    return found


def _read_labels(path: Path, roles: Roles, files: dict[str, Path], labelled: bool, problems: list[str]) -> Listed:
    """The bags in the order of the label table: those of its rows that have a file."""
    assert roles.labels is not None
    table = roles.labels
    column = roles.id or _matching_column(table, files, roles.writing)
    text = [name for name in (column, roles.group, roles.bag) if name]
    frame, read = _filled(table, roles.writing, text)
    sheet = Sheet(str(table), frame, np.arange(len(frame)) + FIRST_ROW, problems=problems)
    names = sheet.names(column, "id", unique=True)
    if names is None:
        sheet.described(roles, labelled=labelled)  # for what else is wrong
        return Listed(np.empty(0, object), [])
    stems = np.array([_stem(name, files) for name in names], object)
    there = np.array([name in files for name in stems], bool)
    notes = [*read, *_remainders(path, table, names[~there], sorted(set(files) - set(stems)) if labelled else [])]
    if not there.any():
        sheet.complain(
            f"no row of the column {column!r} has a file of features in {path}: a row has {names[0]!r}, a file is "
            f"called {min(files)!r}; say which column it is with id="
        )
        return Listed(np.empty(0, object), [])
    kept = Sheet(sheet.source, frame[there].reset_index(drop=True), sheet.rows[there], problems=problems)
    notes += kept.fill_gaps(roles.target)
    return _bags(kept, stems[there], roles, labelled, tuple(notes))


def _bags(sheet: Sheet, names: Objects, roles: Roles, labelled: bool, notes: tuple[str, ...]) -> Listed:
    """A bag a row, or a bag for the rows that have one word in the column of the bags."""
    parts = None if roles.bag is None else sheet.names(roles.bag, "bag")
    if parts is None:
        return Listed(names, [[name] for name in names], notes, sheet.described(roles, labelled=labelled))
    ids, first, codes = first_rows(parts)
    check_described(sheet, roles, codes, first, ids)
    heads = Sheet(sheet.source, sheet.frame.iloc[first], sheet.rows[first], problems=sheet.problems)
    groups = [names[codes == k].tolist() for k in range(len(ids))]
    return Listed(ids, groups, notes, heads.described(roles, labelled=labelled))


def _remainders(path: Path, table: Path, absent: Objects, spare: list[str]) -> list[str]:
    """What has no counterpart: rows without a file, files without a row."""
    found = []
    if len(absent):
        verb = counted(len(absent), "row")
        found.append(f"{table.name}: {verb} left out for want of a file in {path.name}, such as {absent[0]!r}")
    if spare:
        verb = counted(len(spare), "file")
        found.append(f"{path.name}: {verb} left out for want of a row in {table.name}, such as {spare[0]!r}")
    return found


def _stem(name: str, files: dict[str, Path]) -> str:
    """The name of a file as it stands, or without an ending, such as that of the slide it was made of."""
    return name if name in files else Path(name).stem


def _filled(table: Path, writing: Writing, text: Iterable[str] = ()) -> Found:
    found = open_frame(table, text=text, writing=writing)
    if not len(found.frame):
        raise InputError(f"{table}: there is a header but no row of data")
    return found


def _matching_column(table: Path, files: dict[str, Path], writing: Writing) -> str:
    """The first column with a name of a file in it."""
    names = list(_filled(table, writing).frame.columns)
    frame = open_frame(table, text=names, writing=writing).frame
    for name in names:
        if any(cell is not None and _stem(cell, files) in files for cell in texts(frame[name])):
            return name
    raise InputError(
        f"{table}: no column has the name of a file (without its ending, such as {min(files)!r}); say which "
        f"column it is with id="
    )


def _headers(paths: list[Path], problems: list[str]) -> list[Header]:
    """The headers of the files; unreadable ones, empty bags and those of another width are problems."""
    found: dict[Path, Header] = {}
    wrong = []
    for path in paths:
        try:
            found[path] = read_header(path)
        except InputError as error:
            wrong.append(str(error))
    widths = Counter(header.width for header in found.values())
    usual = max(widths, key=lambda width: widths[width], default=0)
    for path, header in found.items():
        if not header.rows or not header.width:
            wrong.append(f"{path}: the bag is empty ({header.rows} elements of {header.width} features): leave it out")
        elif header.width != usual:
            wrong.append(f"{path}: its elements have {header.width} features, those of most files {usual}")
    note_all(problems, wrong, "files with such problems")
    return list(found.values())
