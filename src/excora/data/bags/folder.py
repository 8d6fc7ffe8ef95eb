"""Folders with one file a bag, and the table of labels beside them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excora.data.bags.content import BagSet
from excora.data.bags.files import FORMATS, Header, read_header
from excora.data.bags.stores import FileBags
from excora.data.cells import texts
from excora.data.dataset import Dataset
from excora.data.frames import first_row, read_frame
from excora.data.roles import Roles
from excora.data.sheet import Sheet, note_all
from excora.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def read_folder(path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
    """One .h5, .npz or .safetensors a bag, named by its id; only the headers are read here."""
    if roles.bag is not None:
        problems.append(f"{path}: bag= is for long tables; in a folder each file is a bag")
    files = _bag_files(path, problems)
    ids, described = sorted(files), dict[str, Any]()
    if roles.labels is None and labelled:
        raise InputError(f"{path}: a folder of bags needs labels=, a table with a row for each file")
    if roles.labels is not None:
        ids, described = _read_labels(path, roles, files, labelled, problems)
    headers = _headers([files[name] for name in ids if name in files], problems)
    if problems:
        return None
    paths = [files[name] for name in ids]
    bags = FileBags(paths, [h.key for h in headers], np.array([h.rows for h in headers], np.intp), headers[0].width)
    return Dataset(np.array(ids, object), roles.target, content=BagSet(bags), **described)


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
        inner = [name for name in ("h5_files",) if (path / name).is_dir()]
        hint = f"; did you mean {path / inner[0]}?" if inner else ""
        raise InputError(f"{path}: there is no file of features ({', '.join(FORMATS)}) in this folder{hint}")
    return found


def _read_labels(
    path: Path, roles: Roles, files: dict[str, Path], labelled: bool, problems: list[str]
) -> tuple[list[str], dict[str, Any]]:
    """Ids in the order of the label table, and what it says of them."""
    assert roles.labels is not None
    table = roles.labels
    column = roles.id or _matching_column(table, files)
    text = [name for name in (column, roles.group) if name]
    frame = _filled(table, text)
    sheet = Sheet(str(table), frame, np.arange(len(frame)) + first_row(table), problems=problems)
    ids = sheet.names(column, "id", unique=True)
    described = sheet.described(roles, labelled=labelled)
    if ids is None:
        return [], described
    absent = np.array([name not in files for name in ids], bool)
    if absent.any():
        name = ids[int(np.flatnonzero(absent)[0])]
        sheet.complain(f"there is no file of features for {name!r} in {path}, {sheet.first(absent)}")
    spare = sorted(set(files) - set(ids)) if labelled else []
    if spare:
        more = f" ({len(spare)} such files)" if len(spare) > 1 else ""
        problems.append(f"{files[spare[0]]}: there is no row for it in {table}{more}: add it or move the file away")
    return ids.tolist(), described


def _filled(table: Path, text: list[str] | None = None) -> pd.DataFrame:
    frame = read_frame(table, text=text or ())
    if not len(frame):
        raise InputError(f"{table}: there is a header but no row of data")
    return frame


def _matching_column(table: Path, files: dict[str, Path]) -> str:
    """The first column with a name of a file in it."""
    names = list(_filled(table).columns)
    frame = read_frame(table, text=names)
    for name in names:
        if any(cell in files for cell in texts(frame[name])):
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
