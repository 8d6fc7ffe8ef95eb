"""Patch features that nobody has computed yet: windows through an image encoder, into an .h5, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Index
from excora.data.hdf5 import StoredRows, complaints, open_hdf5
from excora.data.spatial.slide import Slide
from excora.data.spatial.vectors import Vectors
from excora.encodings.images import LITE0, EfficientNetLite0, ImageEncoder, image_encoder
from excora.errors import InputError
from excora.storage import fingerprint

#: Windows that pass the encoder at once.
BATCH = 16
#: Patches along a side of the grid of the encoder that is there without a download.
GRID = 4

Tell = Callable[[int, int], None]


def extract(slide: Slide, encoder: ImageEncoder, path: Path, *, field: float = 0.0, tell: Tell | None = None) -> Path:
    """Write the vectors of every spot to ``path``; what an earlier call has done of them is kept.

    ``features`` (n, d), ``grid`` (n, patches, d) where the encoder has a map, ``coords`` (centres in pixels),
    ``barcodes``. ``field``: the side of a window in pixels of full resolution, the pitch of the spots unless given.
    The file has its name when it is complete.
    """
    if slide.picture is None:
        raise InputError(f"slide {slide.name!r} has no image to compute features from")
    field = field or slide.pitch
    mark = fingerprint(slide.coords, np.array([field])) + slide.key + encoder.key()
    if path.exists():
        if _mark(path) == mark:
            return path
        raise InputError(f"{path}: features of another image, window or encoder are there: remove the file")
    partial = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    if partial.exists() and _mark(partial) != mark:
        partial.unlink()
    import h5py

    with complaints(partial, "HDF5"), h5py.File(partial, "a") as file:
        _lay_out(file, slide, encoder, mark, field)
        for start in range(int(file.attrs["done"]), len(slide), BATCH):
            stop = min(start + BATCH, len(slide))
            windows = [slide.picture.window(x, y, field, encoder.side) for x, y in slide.coords[start:stop]]
            vectors, grid = encoder.vectors(np.stack(windows))
            file["features"][start:stop] = vectors
            if grid is not None:
                file["grid"][start:stop] = grid
            file.attrs["done"] = stop
            file.flush()
            if tell is not None:
                tell(stop, len(slide))
    os.replace(partial, path)
    return path


def _lay_out(file: Any, slide: Slide, encoder: ImageEncoder, mark: str, field: float) -> None:
    if "done" in file.attrs:
        return
    n = len(slide)
    # Half precision: the rounding, 5e-4, is far below what one pixel of shift changes.
    file.create_dataset("features", (n, encoder.width), np.float16)
    if encoder.has_grid:
        file.create_dataset("grid", (n, encoder.grid**2, encoder.width), np.float16)
    file["coords"] = slide.coords
    file["barcodes"] = np.array([str(code).encode() for code in slide.barcodes])
    file.attrs["encoder"], file.attrs["field"], file.attrs["mark"] = encoder.name, field, mark
    file.attrs["done"] = 0


def _mark(path: Path) -> str:
    with complaints(path, "HDF5"), open_hdf5(path) as file:
        return str(file.attrs.get("mark", ""))


def cache_folder() -> Path:
    """Where what was computed is kept: ``EXCORA_CACHE``, or ``~/.cache/excora``."""
    return Path(os.environ.get("EXCORA_CACHE") or Path.home() / ".cache" / "excora")


class ComputedRows:
    """Rows of a feature file that is written when the first of them is asked for."""

    def __init__(self, slide: Slide, key: str, shape: tuple[int, ...]) -> None:
        self.slide, self.key, self.shape = slide, key, shape
        self._rows: StoredRows | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Index) -> NDArray[Any]:
        if self._rows is None:
            mark = fingerprint(self.slide.coords, np.array([self.slide.pitch]))
            path = cache_folder() / "features" / f"{LITE0}-{self.slide.key[:24]}-{mark[:16]}.h5"
            if not path.exists():
                with _told(self.slide.name) as tell:
                    extract(self.slide, image_encoder(), path, tell=tell)
            self._rows = StoredRows(path, self.key)
        return self._rows[rows]


def encoded(slide: Slide) -> Vectors:
    """The vectors of a slide that has a picture and no features: computed once, when they are asked for, and kept."""
    n, width = len(slide), EfficientNetLite0.width
    rows = np.arange(n)
    store, grid = (ComputedRows(slide, key, shape) for key, shape in
                   (("features", (n, width)), ("grid", (n, GRID**2, width))))  # fmt: skip
    return Vectors(store, rows, np.arange(n + 1), grid, name=f"{slide.name} (computed)")


class _told:  # noqa: N801 (a context, used as a word)
    """Progress on the error stream, where somebody looks."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self.bar = Progress(console=console, transient=True, disable=not console.is_terminal)
        self.name = name

    def __enter__(self) -> Tell:
        self.bar.start()
        task = self.bar.add_task(f"features of {self.name}")
        return lambda done, total: self.bar.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
