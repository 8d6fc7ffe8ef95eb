"""Pictures of slides: opened once, windows cut where a spot lies, borders padded with white."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.hdf5 import complaints
from excora.errors import InputError, MissingExtraError

Pixels = NDArray[np.uint8]

FORMATS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".btf", ".svs")
TILED = (".tif", ".tiff", ".btf", ".svs")
WHITE = 255
#: Bytes of a file that its hash reads: all of one below this, else as many, spread evenly.
HASHED = 1 << 26
#: Decoded tiles that are kept, in bytes.
KEPT = 1 << 28


class Picture(ABC):
    """A picture of (height, width) pixels, of which one shows 1 / ``scale`` pixels of full resolution."""

    scale: float  #: pixels here for a pixel of full resolution, in which coordinates are given
    name: str  #: for messages

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """(width, height) in its own pixels."""

    @abstractmethod
    def part(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        """The pixels of a rectangle that lies inside, (bottom - top, right - left, 3)."""

    @abstractmethod
    def key(self) -> str:
        """A hash of what it shows: equal pictures have equal keys, whatever their names."""

    def crop(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        """A rectangle that may reach over the borders: white there.

        >>> ArrayPicture(np.zeros((2, 2, 3), np.uint8)).crop(-1, 0, 1, 1)[..., 0].tolist()
        [[255, 0]]
        """
        width, height = self.size
        inner = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
        if inner == (left, top, right, bottom):
            return self.part(*inner)
        found = np.full((bottom - top, right - left, 3), WHITE, np.uint8)
        if inner[0] < inner[2] and inner[1] < inner[3]:
            found[inner[1] - top : inner[3] - top, inner[0] - left : inner[2] - left] = self.part(*inner)
        return found

    def window(self, x: float, y: float, field: float, side: int) -> Pixels:
        """What lies within ``field`` full-resolution pixels around (x, y), as (side, side, 3)."""
        reach = max(round(field * self.scale), 1)
        left, top = int(x * self.scale) - reach // 2, int(y * self.scale) - reach // 2
        return resized(self.crop(left, top, left + reach, top + reach), side, side)

    def thumbnail(self, most: int = 1200) -> tuple[Pixels, float]:
        """The whole of it, at most so many pixels wide and high, and its pixels for one of full resolution."""
        width, height = self.size
        factor = min(1.0, most / max(width, height))
        step = max(int(1 / factor), 1)
        rows = [self.part(0, top, width, top + 1)[:, ::step] for top in range(0, height, step)]
        small = np.concatenate(rows)
        wide, high = max(round(width * factor), 1), max(round(height * factor), 1)
        return resized(small, wide, high), self.scale * factor


class ArrayPicture(Picture):
    """Pixels (height, width, 3) in memory, uint8 or floats in [0, 1]."""

    def __init__(self, pixels: NDArray[Any], *, scale: float = 1.0, name: str = "image") -> None:
        self.pixels, self.scale, self.name = _colours(pixels, name), scale, name

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.pixels.shape[1], self.pixels.shape[0]

    def part(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        """A copy."""
        return np.array(self.pixels[top:bottom, left:right])

    def key(self) -> str:
        """Of the pixels."""
        found = hashlib.sha256(str(self.pixels.shape).encode())
        found.update(np.ascontiguousarray(self.pixels).tobytes())
        return found.hexdigest()


class FilePicture(Picture):
    """A .jpg, .png or the like: decoded once, into a file that is mapped into memory and vanishes with the process."""

    def __init__(self, path: Path, *, scale: float = 1.0) -> None:
        self.path, self.scale, self.name = path, scale, str(path)
        with complaints(path, "an image"), _opened(path) as image:
            self._size = image.size
        self._pixels: Pixels | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker has to open itself."""
        return self.__dict__ | {"_pixels": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_lock": threading.Lock()})

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self._size

    def part(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        """A copy."""
        with self._lock:
            if self._pixels is None:
                self._pixels = self._decoded()
        return np.array(self._pixels[top:bottom, left:right])

    def key(self) -> str:
        """Of the file's bytes."""
        return hash_of(self.path)

    def thumbnail(self, most: int = 1200) -> tuple[Pixels, float]:
        """A .jpg is decoded no finer than it takes."""
        with complaints(self.path, "an image"), _opened(self.path) as image:
            width, _ = image.size
            image.draft("RGB", (most, most))
            image.thumbnail((most, most))
            small = np.asarray(image.convert("RGB"))
        return small, self.scale * small.shape[1] / width

    def _decoded(self) -> Pixels:
        width, height = self._size
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, np.uint8, "w+", shape=(height, width, 3))
        with complaints(self.path, "an image"), _opened(self.path) as image:
            mapped[:] = np.asarray(image.convert("RGB"))
        return mapped


class TiledPicture(Picture):
    """The largest page of a TIFF: only the tiles (or strips) under a window are decoded, the latest are kept."""

    def __init__(self, path: Path, *, scale: float = 1.0) -> None:
        self.path, self.scale, self.name = path, scale, str(path)
        self._layout: Any = None
        self._tiles: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()
        page = self._page()
        if page.samplesperpixel not in (1, 3, 4) or page.planarconfig != 1 or page.dtype != np.uint8:
            raise InputError(
                f"{path}: a slide's picture has 8-bit pixels of 1, 3 or 4 channels side by side, got {page.dtype} "
                f"and shape {page.shape}"
            )
        self._size = int(page.imagewidth), int(page.imagelength)

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker has to open itself."""
        return self.__dict__ | {"_layout": None, "_tiles": OrderedDict(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_lock": threading.Lock()})

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self._size

    def key(self) -> str:
        """Of the file's bytes."""
        return hash_of(self.path)

    def part(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        """Tile by tile."""
        page = self._page()
        wide, high = (page.tilewidth, page.tilelength) if page.is_tiled else (self._size[0], page.rowsperstrip)
        across = -(-self._size[0] // wide)
        found = np.empty((bottom - top, right - left, 3), np.uint8)
        for row in range(top // high, -(-bottom // high)):
            for column in range(left // wide, -(-right // wide)):
                tile = self._tile(page, row * across + column)
                x, y = column * wide, row * high
                x0, y0 = max(left, x), max(top, y)
                x1, y1 = min(right, x + tile.shape[1]), min(bottom, y + tile.shape[0])
                found[y0 - top : y1 - top, x0 - left : x1 - left] = tile[y0 - y : y1 - y, x0 - x : x1 - x]
        return found

    def _tile(self, page: Any, number: int) -> Pixels:
        with self._lock, complaints(self.path, "a TIFF"):
            if number not in self._tiles:
                with self.path.open("rb") as file:  # a handle of one's own: workers would share its place
                    file.seek(page.dataoffsets[number])
                    data = file.read(page.databytecounts[number])
                pixels = page.decode(data, number, jpegtables=page.jpegtables)[0]
                if pixels is None:
                    raise InputError(f"{self.path}: tile {number} is empty")
                self._tiles[number] = _colours(pixels[0], self.name)
                while sum(tile.nbytes for tile in self._tiles.values()) > KEPT and len(self._tiles) > 1:
                    self._tiles.popitem(last=False)
            self._tiles.move_to_end(number)
            return self._tiles[number]

    def _page(self) -> Any:
        """The page of the most pixels: where its tiles are and how they are decoded. The file is closed again."""
        if self._layout is None:
            try:
                import tifffile
            except ModuleNotFoundError as error:
                raise MissingExtraError("tifffile", "spatial") from error
            with complaints(self.path, "a TIFF"), tifffile.TiffFile(self.path) as file:
                pages: list[Any] = list(file.pages)
                self._layout = max(pages, key=lambda page: page.imagewidth * page.imagelength).aspage()
                _ = self._layout.decode, self._layout.jpegtables, self._layout.dataoffsets  # read now
        return self._layout


def open_picture(path: Path, *, scale: float = 1.0) -> Picture:
    """The picture in a file, by the ending of its name."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such image")
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: an image ends in {', '.join(FORMATS)}, got {path.name!r}")
    return TiledPicture(path, scale=scale) if path.suffix.lower() in TILED else FilePicture(path, scale=scale)


def hash_of(path: Path) -> str:
    """A hash of a file: all of it, or of a large one 64 pieces and its size."""
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    pieces = 1 if size <= HASHED else 64
    with path.open("rb") as file:
        for k in range(pieces):
            file.seek(k * size // pieces)
            found.update(file.read(min(size, HASHED) // pieces))
    return found.hexdigest()


def resized(pixels: Pixels, width: int, height: int) -> Pixels:
    """With the weights of a triangle, wide enough that no pixel is left out."""
    if pixels.shape[:2] == (height, width):
        return pixels
    image = _pillow()
    return np.asarray(image.fromarray(pixels).resize((width, height), image.Resampling.BILINEAR))


def _colours(pixels: NDArray[Any], name: str) -> Pixels:
    """As uint8 of three channels: grey is repeated, transparency is left out, floats in [0, 1] are scaled."""
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        raise InputError(f"{name}: pixels must have the shape (height, width, 3), got {pixels.shape}")
    pixels = np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels[..., :3]
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind != "f" or not (np.nanmin(pixels) >= 0 and np.nanmax(pixels) <= 1):
        raise InputError(f"{name}: pixels must be uint8, or floats from 0 to 1, got {pixels.dtype}")
    return np.asarray((np.nan_to_num(pixels, nan=1.0) * 255).round().astype(np.uint8))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingExtraError("pillow", "spatial") from error
    return Image


def _opened(path: Path) -> Any:
    """A slide is larger than what Pillow takes for an attack; its size is checked by whoever decodes it."""
    import warnings

    image = _pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", image.DecompressionBombWarning)
        before, image.MAX_IMAGE_PIXELS = image.MAX_IMAGE_PIXELS, None
        try:
            return image.open(path)
        finally:
            image.MAX_IMAGE_PIXELS = before
