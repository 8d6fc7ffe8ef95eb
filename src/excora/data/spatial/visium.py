"""10x Visium folders: ``filtered_feature_bc_matrix.h5``, ``spatial/``, and a picture of full resolution beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.frames import read_frame
from excora.data.hdf5 import complaints, inside, numbers, open_hdf5, texts
from excora.data.spatial.pictures import TILED, Picture, open_picture
from excora.data.spatial.slide import Floats, Objects, Slide, matrix_of, unique
from excora.errors import InputError
from excora.storage import read_json

MATRIX = "filtered_feature_bc_matrix.h5"
#: Space Ranger 2.0 renamed the file and gave it a header.
POSITIONS = ("tissue_positions.csv", "tissue_positions_list.csv", "tissue_positions.parquet")
_COLUMNS = ["barcode", "in_tissue", "array_row", "array_col", "pxl_row_in_fullres", "pxl_col_in_fullres"]


def is_visium(path: Path) -> bool:
    """Whether a folder is one."""
    return (path / "spatial").is_dir() and matrix_file(path) is not None


def matrix_file(path: Path) -> Path | None:
    """The matrix, which may have the name of the sample before its own."""
    plain = path / MATRIX
    return plain if plain.is_file() else next(iter(sorted(path.glob(f"*{MATRIX}"))), None)


def read_visium(path: Path, picture: Path | None = None) -> tuple[Slide, dict[str, str]]:
    """The slide, and what its Ensembl ids mean. ``picture``: the one of full resolution, if it lies elsewhere."""
    file = matrix_file(path)
    assert file is not None
    barcodes, genes, ids, counts = read_matrix(file)
    place = _positions(path)
    absent = [code for code in barcodes if code not in place]
    if absent:
        raise InputError(
            f"{path}: {len(absent)} of {len(barcodes)} barcodes of the matrix have no position, the first is "
            f"{absent[0]!r}: matrix and spatial/ are of two samples"
        )
    coords = np.array([place[code] for code in barcodes], np.float64).reshape(-1, 2)
    found = Slide(path.name, barcodes, coords, unique(list(genes)), counts, picture=_picture(path, picture))
    return found, dict(zip(ids, found.genes, strict=True))


def read_matrix(path: Path) -> tuple[Objects, Objects, Objects, Any]:
    """Barcodes, symbols, ids and counts (spots, genes) of Cell Ranger's HDF5; rows other than genes are left out."""
    with complaints(path, "a feature-barcode matrix of 10x"), open_hdf5(path) as file:
        group = inside(path, file, "matrix") if "matrix" in file else None
        if group is None:
            raise InputError(f"{path}: there is no group 'matrix': expected the .h5 that Space Ranger writes")
        parts = [numbers(path, inside(path, group, name), name) for name in ("data", "indices", "indptr", "shape")]
        features = inside(path, group, "features")
        barcodes = texts(path, inside(path, group, "barcodes"), "barcodes")
        genes, ids = (texts(path, inside(path, features, name), name) for name in ("name", "id"))
        kinds = (
            texts(path, inside(path, features, "feature_type"), "feature_type") if "feature_type" in features else None
        )
    rows, columns = (int(side) for side in parts[3])
    if (columns, rows) != (len(barcodes), len(genes)):
        raise InputError(
            f"{path}: {len(barcodes)} barcodes and {len(genes)} genes do not fit the shape {(rows, columns)}"
        )
    counts = matrix_of(path, parts[:3], (columns, rows))
    if kinds is not None and (wanted := kinds == "Gene Expression").any() and not wanted.all():
        return barcodes, genes[wanted], ids[wanted], counts[:, np.flatnonzero(wanted)]
    return barcodes, genes, ids, counts


def _positions(path: Path) -> dict[str, NDArray[np.float64]]:
    """Barcode to (x, y) in pixels of full resolution: those of the picture that Space Ranger was given."""
    file = next((path / "spatial" / name for name in POSITIONS if (path / "spatial" / name).is_file()), None)
    if file is None:
        raise InputError(f"{path / 'spatial'}: expected one of {', '.join(POSITIONS)}")
    if file.suffix == ".parquet" or file.read_bytes()[:7] == b"barcode":
        frame = read_frame(file, text=["barcode"])
    else:
        import pandas as pd

        with complaints(file, "a list of positions"):
            frame = pd.read_csv(file, header=None, dtype={0: str})
        if frame.shape[1] != len(_COLUMNS):
            raise InputError(
                f"{file}: expected the {len(_COLUMNS)} columns {', '.join(_COLUMNS)}, got {frame.shape[1]}"
            )
        frame.columns = _COLUMNS
    absent = [name for name in _COLUMNS if name not in frame]
    if absent:
        raise InputError(f"{file}: there is no column {absent[0]!r}; expected {', '.join(_COLUMNS)}")
    with complaints(file, "a list of positions"):
        coords: Floats = frame[["pxl_col_in_fullres", "pxl_row_in_fullres"]].to_numpy(np.float64)
    return dict(zip(frame["barcode"].astype(str), coords, strict=True))


def _picture(path: Path, given: Path | None) -> Picture | None:
    """Of full resolution, if it is there; else the larger of the two in ``spatial/``, with its scale."""
    full = given or next((file for file in sorted(path.iterdir()) if file.suffix.lower() in TILED), None)
    if full is not None:
        return open_picture(full)
    for size in ("hires", "lowres"):
        for ending in (".png", ".jpg", ".jpeg"):
            file = path / "spatial" / f"tissue_{size}_image{ending}"
            if file.is_file():
                return open_picture(file, scale=_scale(path / "spatial" / "scalefactors_json.json", size))
    return None


def _scale(path: Path, size: str) -> float:
    found = read_json(path).get(f"tissue_{size}_scalef")
    if not isinstance(found, int | float) or not 0 < found <= 1:
        raise InputError(f"{path}: tissue_{size}_scalef must be a number above 0 and at most 1, got {found!r}")
    return float(found)
