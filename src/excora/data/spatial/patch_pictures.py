"""Windows that somebody has cut already: HEST's ``patches/NAME.h5`` with ``img``, ``coords`` and ``barcode``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from excora.data.hdf5 import StoredRows, complaints, open_hdf5, stored, texts
from excora.data.spatial.pictures import WHITE, Picture, Pixels, hash_of, resized
from excora.errors import InputError

Floats = NDArray[np.float64]
NAMES = ("barcode", "barcodes")


class PatchPicture(Picture):
    """One picture a spot. Which one is meant is told by the place of the spot; how much it shows, by who cut it."""

    def __init__(self, path: Path, barcodes: NDArray[np.object_], coords: Floats, pitch: float) -> None:
        self.path, self.scale, self.name = path, 1.0, str(path)
        self.coords, self.pitch = coords, pitch
        with complaints(path, "HDF5"), open_hdf5(path) as file:
            named = next((name for name in NAMES if name in file), None)
            if named is None or "img" not in file:
                raise InputError(
                    f"{path}: expected 'img' and 'barcode', got {', '.join(sorted(file)[:8]) or 'nothing'}"
                )
            place = {name: k for k, name in enumerate(texts(path, stored(path, file, named), named))}
        self.pixels = StoredRows(path, "img")
        shape = self.pixels.shape
        if len(shape) != 4 or shape[3] != 3 or self.pixels.dtype != np.uint8 or shape[0] != len(place):
            raise InputError(f"{path}: 'img' must be uint8 of shape ({len(place)}, side, side, 3), got {shape}")
        absent = [code for code in barcodes if code not in place]
        if absent:
            raise InputError(
                f"{path}: {len(absent)} of {len(barcodes)} spots have no patch, the first is {absent[0]!r}"
            )
        self.rows = np.array([place[code] for code in barcodes], np.intp)

    @property
    def size(self) -> tuple[int, int]:
        """As far as there are spots."""
        width, height = np.ceil(self.coords.max(0) + self.pitch).astype(int)
        return int(width), int(height)

    def key(self) -> str:
        """Of the file's bytes."""
        return hash_of(self.path)

    def window(self, x: float, y: float, field: float, side: int) -> Pixels:  # noqa: ARG002
        """The patch of the spot at (x, y); another place has none."""
        gap = np.abs(self.coords - (x, y)).max(1)
        spot = int(gap.argmin())
        if gap[spot] > 1:
            raise InputError(f"{self.path}: there is no patch at ({x:.0f}, {y:.0f}), only of spots")
        return resized(self.pixels[self.rows[[spot]]][0], side, side)

    def part(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        """Nothing lies between the patches."""
        return np.full((bottom - top, right - left, 3), WHITE, np.uint8)

    def thumbnail(self, most: int = 1200) -> tuple[Pixels, float]:
        """The patches where their spots are, each as large as the pitch."""
        width, height = self.size
        scale = min(1.0, most / max(width, height))
        found = np.full((max(round(height * scale), 1), max(round(width * scale), 1), 3), WHITE, np.uint8)
        side = max(round(self.pitch * scale), 1)
        for spot, (x, y) in enumerate(self.coords):
            left, top = max(int(x * scale) - side // 2, 0), max(int(y * scale) - side // 2, 0)
            patch = resized(self.pixels[self.rows[[spot]]][0], side, side)
            room = found[top : top + side, left : left + side]
            room[:] = patch[: room.shape[0], : room.shape[1]]
        return found, scale
