"""From a path to slides: an .h5ad, a Visium folder, a folder of tables, or a folder of any of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from excora.data.frames import read_frame
from excora.data.roles import Roles
from excora.data.spatial.count_tables import is_tables, names_of, read_tables
from excora.data.spatial.extraction import encoded
from excora.data.spatial.genes import unified
from excora.data.spatial.h5ad import read_h5ad
from excora.data.spatial.patch_pictures import PatchPicture
from excora.data.spatial.pictures import open_picture
from excora.data.spatial.slide import Slide, check_slide
from excora.data.spatial.vectors import read_vectors
from excora.data.spatial.visium import is_visium, read_visium
from excora.errors import DataError, InputError

#: Folders in a folder that hold its slides: HEST calls it so.
_NESTED = ("", "st")
#: Of files with patch features.
ENDINGS = (".h5", ".hdf5")


class Row(NamedTuple):
    """What a table of slides says of one."""

    image: Path | None = None
    features: Path | None = None
    about: dict[str, str] = {}  # noqa: RUF012


def is_slides(path: Path) -> bool:
    """Whether a path is one slide or several; quick."""
    return bool(_found(path))


def _found(path: Path) -> dict[str, Path]:
    """Slides by name: an .h5ad file, or a folder."""
    if path.suffix.lower() == ".h5ad":
        return {path.stem: path}
    if not path.is_dir():
        return {}
    if is_visium(path):
        return {path.name: path}
    if is_tables(path):
        return names_of(path)
    inner = [file for name in _NESTED if (path / name).is_dir() for file in sorted((path / name).iterdir())]
    found = {file.stem: file for file in inner if file.suffix.lower() == ".h5ad"}
    return found | {file.name: file for file in inner if file.is_dir() and is_visium(file)}


def read_slides(paths: Sequence[Path], roles: Roles, problems: list[str], *, vectors: bool = True) -> list[Slide]:
    """Every slide, with picture and patch features where there are any; what is wrong is noted.

    ``vectors`` False: patch features are not looked for.
    """
    there = _everywhere(paths, problems)
    table = None if roles.labels is None else _table(roles.labels, roles)
    if table is not None:
        absent = [name for name in table if name not in there]
        if absent:
            have = ", ".join(list(there)[:8])
            raise InputError(f"{roles.labels}: slide {absent[0]!r} is not there; there are {have}")
        there = {name: there[name] for name in table}
    slides: list[Slide] = []
    symbols: dict[str, str] = {}
    for name, (path, file) in there.items():
        row = Row() if table is None else table[name]
        try:
            read, meaning = _read(path, name, file, row)
            symbols |= meaning
            pictured = [_pictured(slide, row, path / "patches" / f"{name}.h5") for slide in read]
            slides += [_finished(one, path, row, roles, alone=len(read) == 1) if vectors else one for one in pictured]
        except DataError as error:
            problems.extend(error.problems)
        except InputError as error:
            problems.append(str(error))
    for slide in slides:
        check_slide(slide, problems)
    return unified(slides, symbols)


def _everywhere(paths: Sequence[Path], problems: list[str]) -> dict[str, tuple[Path, Path]]:
    """The slides of several paths by name: the path, and the file or folder in it."""
    there: dict[str, tuple[Path, Path]] = {}
    for path in paths:
        found = _found(path)
        if not found:
            problems.append(f"{path}: here are no slides: expected an .h5ad, a Visium folder, or a folder of them")
        twice = [name for name in found if name in there]
        if twice:
            problems.append(f"{path}: there is a slide {twice[0]!r} already: slides must have names of their own")
        there |= {name: (path, file) for name, file in found.items()}
    return there


def _read(path: Path, name: str, file: Path, row: Row) -> tuple[list[Slide], dict[str, str]]:
    if file.suffix.lower() == ".h5ad":
        return read_h5ad(file)
    if file.is_dir():
        slide, symbols = read_visium(file, row.image)
        return [slide], symbols
    return [read_tables(path, name, row.image)], {}


def _pictured(slide: Slide, row: Row, patches: Path) -> Slide:
    """With what a table says of it, or with the windows that lie beside it as HEST has them."""
    if row.image is None and patches.is_file():
        slide = replace(slide, picture=PatchPicture(patches, slide.barcodes, slide.coords, slide.pitch))
    if row.image is not None and (slide.picture is None or slide.picture.name != str(row.image)):
        slide = replace(slide, picture=open_picture(row.image))
    return replace(slide, about=slide.about | row.about)


def _finished(slide: Slide, path: Path, row: Row, roles: Roles, *, alone: bool) -> Slide:
    """With its patch features: given, or computed when they are asked for."""
    file = row.features if alone else None
    beside = path / "features" if path.is_dir() else path.parent / "features"
    # Beside a file there may be the features of others: what is not there is computed.
    own = path.is_dir() or any((beside / f"{path.stem}{ending}").is_file() for ending in ENDINGS)
    folder = roles.features or (beside if beside.is_dir() and own else None)
    if file is None and folder is not None:
        file = folder if folder.is_file() else _file_of(folder, slide.name)
    if file is not None:
        return replace(slide, vectors=read_vectors(file, slide.barcodes, slide.coords, slide.pitch))
    return slide if slide.picture is None else replace(slide, vectors=encoded(slide))


def _file_of(folder: Path, name: str) -> Path:
    name = name.rpartition(":")[2]
    for ending in ENDINGS:
        if (folder / f"{name}{ending}").is_file():
            return folder / f"{name}{ending}"
    have = ", ".join(sorted(file.name for file in folder.glob("*.h5"))[:6]) or "no .h5 file"
    raise InputError(f"{folder}: there is no {name}.h5 with the patch features of slide {name!r}; there are {have}")


def _table(path: Path, roles: Roles) -> dict[str, Row]:
    """Slides by name, from a table with a row a slide: ``slide`` (or id=), ``image``, ``features``, and more."""
    frame = read_frame(path, text=[roles.id or "slide", *([] if roles.group is None else [roles.group])])
    key = roles.id or "slide"
    if key not in frame:
        raise InputError(
            f"{path}: a table of slides names them in a column {key!r}, there are {', '.join(map(str, frame))[:200]}"
        )

    def file(cell: Any) -> Path | None:
        return None if not isinstance(cell, str) or not cell else path.parent / cell

    found: dict[str, Row] = {}
    for cells in frame.to_dict("records"):
        name = str(cells.pop(key))
        if name in found:
            raise InputError(f"{path}: slide {name!r} is there twice")
        paths = {part: file(cells.pop(part, None)) for part in ("image", "features")}
        found[name] = Row(**paths, about={str(column): str(cell) for column, cell in cells.items()})
    return found
