"""Folders of tables as her2st has them: ``ST-cnts`` (spots x genes), ``ST-spotfiles`` (pixels), ``ST-imgs``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from excora.data.frames import read_frame
from excora.data.hdf5 import complaints
from excora.data.spatial.pictures import FORMATS, Picture, open_picture
from excora.data.spatial.slide import Floats, Objects, Slide, narrow, unique
from excora.errors import InputError

COUNTS, SPOTS, PICTURES = "ST-cnts", "ST-spotfiles", "ST-imgs"
_ENDINGS = (".tsv", ".tsv.gz", ".csv", ".csv.gz")


def is_tables(path: Path) -> bool:
    """Whether a folder is one."""
    return (path / COUNTS).is_dir() and (path / SPOTS).is_dir()


def names_of(path: Path) -> dict[str, Path]:
    """Its slides by name."""
    found = {}
    for file in sorted((path / COUNTS).iterdir()):
        ending = next((end for end in sorted(_ENDINGS, key=len, reverse=True) if file.name.endswith(end)), None)
        if ending is not None:
            found[file.name.removesuffix(ending)] = file
    return found


def read_tables(path: Path, name: str, picture: Path | None = None) -> Slide:
    """One slide. A spot is named by its place in the array, ``10x14``; the patient is the letter before the number."""
    from scipy.sparse import csr_matrix

    file = names_of(path)[name]
    barcodes, genes, counts = _counts(file)
    places = _places(path, name)
    here = np.array([code in places for code in barcodes], bool)
    if not here.any():
        raise InputError(f"{file}: none of its {len(barcodes)} spots ({barcodes[:1]}) has a place in {SPOTS}")
    notes = () if here.all() else (f"{name}: {int((~here).sum())} of {len(here)} spots have no place and are left out",)
    letters = re.match(r"[A-Za-z]+(?=\d+$)", name)
    return Slide(
        name, barcodes[here], np.array([places[code] for code in barcodes[here]], np.float64),
        unique(genes), csr_matrix(narrow(counts[here])), complete=False,
        picture=_picture(path, name, picture), about={"patient": letters[0]} if letters else {}, notes=notes,
    )  # fmt: skip


def _counts(file: Path) -> tuple[Objects, list[str], Floats]:
    """Spots, genes and counts of a table with a row a spot. Ten thousand columns are too many for a careful reader."""
    import pandas as pd

    with complaints(file, "a table of counts"):
        frame = pd.read_csv(file, sep="," if ".csv" in file.name else "\t", index_col=0, low_memory=False)
        wrong = [str(name) for name, kind in zip(frame.columns, frame.dtypes, strict=True) if kind.kind not in "iuf"]
        if wrong or not frame.size:
            what = f"column {wrong[0]!r} holds other things" if frame.size else "the table is empty"
            raise InputError(f"{file}: counts must be numbers, and {what}")
        return (
            frame.index.astype(str).to_numpy(object),
            [str(gene) for gene in frame.columns],
            frame.to_numpy(np.float64),
        )


def _places(path: Path, name: str) -> dict[str, tuple[float, float]]:
    """Spot to (x, y) in pixels, of the spots under tissue."""
    file = next((path / SPOTS / f"{name}{end}" for end in ("_selection.tsv", ".tsv", "_selection.tsv.gz")
                 if (path / SPOTS / f"{name}{end}").is_file()), None)  # fmt: skip
    if file is None:
        raise InputError(f"{path / SPOTS}: there is no {name}_selection.tsv, the pixel coordinates of slide {name!r}")
    frame = read_frame(file)
    absent = [column for column in ("x", "y", "pixel_x", "pixel_y") if column not in frame]
    if absent:
        raise InputError(f"{file}: there is no column {absent[0]!r}; expected x, y, pixel_x, pixel_y")
    if "selected" in frame:
        frame = frame[frame["selected"] == 1]
    spots = [f"{x}x{y}" for x, y in zip(frame["x"], frame["y"], strict=True)]
    return dict(zip(spots, zip(frame["pixel_x"], frame["pixel_y"], strict=True), strict=True))


def _picture(path: Path, name: str, given: Path | None) -> Picture | None:
    """The only image in a folder of the slide's name, or a file of its name."""
    if given is not None:
        return open_picture(given)
    files = [file for file in sorted((path / PICTURES).rglob("*")) if file.suffix.lower() in FORMATS]
    found = [file for file in files if file.stem == name] or [file for file in files if file.parent.name == name]
    if len(found) > 1:
        raise InputError(f"{path / PICTURES}: slide {name!r} has {len(found)} images: leave one, or name it in a table")
    return open_picture(found[0]) if found else None
