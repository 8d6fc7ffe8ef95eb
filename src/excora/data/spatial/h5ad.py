""".h5ad files, read by hand: only the arrays that are needed, and never anything that could run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.hdf5 import complaints, inside, numbers, open_hdf5, texts
from excora.data.spatial.pictures import ArrayPicture
from excora.data.spatial.slide import Objects, Slide, matrix_of, narrow, unique
from excora.errors import InputError

#: Columns of ``var`` that hold ids or symbols beside the names.
_IDS, _SYMBOLS = ("gene_ids", "gene_id", "ensembl_id"), ("gene_symbols", "gene_name", "gene_names", "feature_name")
#: Columns of ``obs`` that say which of several slides a spot is on.
_LIBRARY = ("library_id", "sample", "sample_id", "slide", "section")
#: Opening bytes of pickles of protocols 2 to 5.
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass
class Opened:
    """A file and its path, for messages."""

    path: Path
    file: Any
    notes: list[str] = field(default_factory=list)

    def at(self, place: str) -> Any:
        """A dataset or group, None where there is none: ``uns/spatial``. No link is followed."""
        found = self.file
        for name in place.split("/"):
            if not hasattr(found, "keys") or name not in found:
                return None
            found = inside(self.path, found, name)
        return found

    def numbers(self, place: str) -> NDArray[Any] | None:
        """A dense array."""
        found = self.at(place)
        return None if found is None or hasattr(found, "keys") else numbers(self.path, found, place)

    def column(self, place: str) -> Objects | None:
        """A column of ``obs`` or ``var`` as texts: plain, or categories with codes."""
        found = self.at(place)
        if found is None:
            return None
        if not hasattr(found, "keys"):
            return texts(self.path, found, place) if found.dtype.kind != "f" else None
        codes, words = self.numbers(f"{place}/codes"), self.at(f"{place}/categories")
        if codes is None or words is None or codes.dtype.kind not in "iu":
            return None
        names = np.append(texts(self.path, words, place), "")
        if len(codes) and not -1 <= codes.min() <= codes.max() < len(names) - 1:
            raise InputError(f"{self.path}: {place!r} is damaged: its codes do not fit its categories")
        return np.asarray(names[codes])  # -1, unknown, is the last

    def index(self, frame: str) -> Objects:
        """The names of the rows of ``obs`` or ``var``."""
        group = self.at(frame)
        if group is None or not hasattr(group, "keys"):
            why = (
                "is missing" if group is None else "has the layout of an old AnnData: read and write it once with a new"
            )
            raise InputError(f"{self.path}: {frame!r} {why}; expected an .h5ad of AnnData 0.7 or later")
        key = group.attrs.get("_index", "_index")
        found = self.column(f"{frame}/{key.decode() if isinstance(key, bytes) else key}")
        if found is None:
            raise InputError(f"{self.path}: {frame!r} has no index of names")
        return found


def read_h5ad(path: Path) -> tuple[list[Slide], dict[str, str]]:
    """The slides in a file, one or several, and what its Ensembl ids mean.

    ``obsm["spatial"]`` holds centres in pixels of full resolution; ``uns["spatial"]`` pictures with their scale.
    """
    with complaints(path, "an .h5ad"), open_hdf5(path) as file:
        opened = Opened(path, file)
        refuse_pickles(opened)
        barcodes, genes = opened.index("obs"), opened.index("var")
        coords = opened.numbers("obsm/spatial")
        if coords is None:
            raise InputError(f"{path}: there is no obsm['spatial'], the pixel coordinates of the spots")
        if coords.ndim != 2 or coords.shape[1] < 2 or len(coords) != len(barcodes):
            raise InputError(
                f"{path}: obsm['spatial'] must be (spots, 2), got {coords.shape} for {len(barcodes)} spots"
            )
        counts, normalised = _counts(opened, (len(barcodes), len(genes)))
        names, meaning = _names(opened, genes)
        whole = Slide(
            path.stem, barcodes, coords[:, :2].astype(np.float64), names, counts, about=_about(opened, len(barcodes)),
            normalised=normalised, notes=tuple(opened.notes),
        )  # fmt: skip
        return _libraries(opened, whole), meaning


def refuse_pickles(opened: Opened) -> None:
    """An opaque value, or bytes that open like a pickle, anywhere in the file: nobody should load it, and we do not."""
    import h5py

    def look(name: str, found: Any) -> str | None:
        if not isinstance(found, h5py.Dataset):
            return None
        kind = found.dtype
        opaque = kind.kind == "V" and kind.names is None
        reference = kind.kind == "O" and h5py.check_string_dtype(kind) is None and h5py.check_vlen_dtype(kind) is None
        if opaque or reference:
            return name
        small = found.size == 1 and kind.kind in "SO"
        value = found[()] if small else found[:2] if kind == np.uint8 and found.ndim == 1 and found.size > 2 else b""
        # An array of strings of any length holds addresses, not the strings: its one item is what is looked at.
        start = value if not isinstance(value, np.ndarray) else value.item() if small else value.tobytes()
        return name if isinstance(start, bytes) and start.startswith(_PICKLES) else None

    place = opened.file.visititems(look)
    if place is not None:
        raise InputError(
            f"{opened.path}: {place!r} holds a pickled Python object, which is never loaded and could run code "
            "elsewhere: remove it from the file"
        )


def _counts(opened: Opened, shape: tuple[int, int]) -> tuple[Any, bool]:
    """layers["counts"], else X; and whether these are no counts any more."""
    for place in ("layers/counts", "X"):
        found = opened.at(place)
        if found is None:
            continue
        matrix = _matrix(opened, place, found, shape)
        broken = not matrix.data.size or (matrix.data % 1 != 0).any()
        if broken and matrix.data.size and np.isfinite(matrix.data).all():
            opened.notes.append(
                f"{opened.path.name}: X holds no whole numbers and there is no layers['counts']: expression is "
                "predicted as it is there"
            )
            return matrix, True
        return matrix, False
    return None, False


def _matrix(opened: Opened, place: str, found: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_matrix

    if not hasattr(found, "keys"):
        dense = numbers(opened.path, found, place)
        if dense.shape != shape:
            raise InputError(
                f"{opened.path}: {place!r} has the shape {dense.shape}, and there are {shape} spots and genes"
            )
        return csr_matrix(narrow(dense))
    parts = [opened.numbers(f"{place}/{name}") for name in ("data", "indices", "indptr")]
    if any(part is None for part in parts):
        raise InputError(f"{opened.path}: {place!r} is neither an array nor a sparse matrix")
    kind = found.attrs.get("encoding-type", "csr_matrix")
    if (kind.decode() if isinstance(kind, bytes) else kind) == "csc_matrix":
        return matrix_of(opened.path, parts, shape[::-1]).T.tocsr()
    return matrix_of(opened.path, parts, shape)


def _names(opened: Opened, index: Objects) -> tuple[tuple[str, ...], dict[str, str]]:
    """Symbols where the file has them, and what ids mean."""

    def first(names: tuple[str, ...]) -> Objects | None:
        found = (opened.column(f"var/{name}") for name in names)
        return next((column for column in found if column is not None and len(column) == len(index)), None)

    ids, symbols = first(_IDS), first(_SYMBOLS)
    if symbols is not None:
        return unique([symbol or name for symbol, name in zip(symbols, index, strict=True)]), dict(
            zip(index, symbols, strict=True)
        )
    meaning = {} if ids is None else dict(zip(ids, index, strict=True))
    return unique(list(index)), meaning


def _about(opened: Opened, spots: int) -> dict[str, Any]:
    """The columns of ``obs`` that hold words or whole numbers: a group may be among them."""
    found = {}
    for name in opened.at("obs"):
        column = None if name.startswith("_") else opened.column(f"obs/{name}")
        if column is not None and len(column) == spots:
            found[name] = column
    return found


def _libraries(opened: Opened, whole: Slide) -> list[Slide]:
    """A slide for each entry of ``uns["spatial"]``, or one."""
    group = opened.at("uns/spatial")
    names = sorted(name for name in group if hasattr(inside(opened.path, group, name), "keys")) if group else []
    if len(names) < 2:
        return [_with_picture(opened, whole, names[0] if names else None)]
    for column in _LIBRARY:
        words = whole.about.get(column)
        if words is not None and set(words) <= set(names):
            found = []
            for name in names:
                here = np.flatnonzero(words == name)
                if len(here):
                    part = taken(whole, here, f"{whole.name}:{name}")
                    found.append(_with_picture(opened, part, name))
            return found
    raise InputError(
        f"{opened.path}: uns['spatial'] has {len(names)} slides ({', '.join(names[:4])}) and no column of obs says "
        f"which spot is on which: expected one of {', '.join(_LIBRARY)}"
    )


def taken(slide: Slide, spots: NDArray[np.intp], name: str) -> Slide:
    """Some spots of a slide, as one of its own."""
    from dataclasses import replace

    about = {key: value if isinstance(value, str) else value[spots] for key, value in slide.about.items()}
    counts = None if slide.counts is None else slide.counts[spots]
    return replace(
        slide, name=name, barcodes=slide.barcodes[spots], coords=slide.coords[spots], counts=counts, about=about
    )


def _with_picture(opened: Opened, slide: Slide, library: str | None) -> Slide:
    """With the finest picture that is in the file."""
    from dataclasses import replace

    for size in ("hires", "downscaled_fullres", "lowres") if library is not None else ():
        pixels = opened.numbers(f"uns/spatial/{library}/images/{size}")
        scale = opened.numbers(f"uns/spatial/{library}/scalefactors/tissue_{size}_scalef")
        if pixels is not None and scale is not None:
            factor = float(np.asarray(scale).ravel()[0])
            if not np.isfinite(factor) or factor <= 0:
                raise InputError(f"{opened.path}: tissue_{size}_scalef must be above 0, got {factor}")
            return replace(slide, picture=ArrayPicture(pixels, scale=factor, name=f"{opened.path.name}:{size}"))
    return slide
