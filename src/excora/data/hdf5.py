"""HDF5 files of strangers: what is stored in the file itself is read, nothing is followed and nothing is run."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.errors import ExcoraError, InputError, MissingExtraError

#: Bytes that are unpacked at a time.
PIECE = 1 << 25


@contextmanager
def complaints(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises into an InputError that names the file."""
    try:
        yield
    except ExcoraError:
        raise
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    except Exception as error:  # a broken file may provoke any kind
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path}: this is not readable as {kind}: {what}") from None


def open_hdf5(path: Path) -> Any:
    """The file, for reading."""
    import h5py

    return h5py.File(path, "r", locking="best-effort")


def inside(path: Path, group: Any, key: str) -> Any:
    """The member ``key`` of a file or group, a dataset or a group; refused if its numbers would come from elsewhere.

    Nothing is followed: neither links nor virtual datasets. By h5py's low-level calls, which take half the time: a data
    set may have ten thousand files.
    """
    from h5py import Dataset, Group, h5d, h5l, h5o

    name = key.encode()
    if group.id.links.get_info(name).type != h5l.TYPE_HARD:
        raise InputError(
            f"{path}: {key!r} is a link to another place; for safety only arrays stored in the file itself are read: "
            f"copy the data into it"
        )
    found = h5o.open(group.id, name)
    if not isinstance(found, h5d.DatasetID):
        return Group(found)
    layout = found.get_create_plist()
    if layout.get_layout() == h5d.VIRTUAL or layout.get_external_count():
        raise InputError(
            f"{path}: {key!r} is a virtual dataset or one stored outside; for safety only arrays stored in the file "
            f"itself are read: copy the data into it"
        )
    return Dataset(found)


def stored(path: Path, file: Any, key: str) -> Any:
    """The dataset ``key`` as :func:`inside` finds it, None for a group."""
    from h5py import Dataset

    found = inside(path, file, key)
    return found if isinstance(found, Dataset) else None


def numbers(path: Path, dataset: Any, name: str) -> NDArray[Any]:
    """All numbers of a dataset; anything else in it is an InputError."""
    if dataset.dtype.kind not in "fiub":
        raise InputError(f"{path}: {name!r} must hold numbers, got {dataset.dtype}; Python objects are never loaded")
    return np.asarray(dataset[()])


def texts(path: Path, dataset: Any, name: str) -> NDArray[np.object_]:
    """All texts of a dataset end to end, as str; bytes are UTF-8. Numbers become text, all else is an InputError."""
    import h5py

    if h5py.check_string_dtype(dataset.dtype) is None and dataset.dtype.kind not in "SUiu":
        raise InputError(f"{path}: {name!r} must hold text, got {dataset.dtype}; Python objects are never loaded")
    values = np.asarray(dataset[()]).reshape(-1)
    return np.array([x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in values.tolist()], object)


class StoredRows:
    """The rows of an array in an HDF5 file, read when they are asked for: mapped into memory where the layout allows.

    An array in chunks is unpacked once, into a temporary file that vanishes with the process: a row would otherwise
    cost its whole chunk each time. It may go to a data loader's worker.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        with complaints(path, "HDF5"), open_hdf5(path) as file:
            found = stored(path, file, key)
            if found is None or found.dtype.kind not in "fiub":
                what = "a group" if found is None else found.dtype
                raise InputError(f"{path}: {key!r} must hold numbers, got {what}")
            self.shape, self.dtype = tuple(found.shape), found.dtype
            plain = found.chunks is None and found.compression is None and found.size
            #: Where the numbers start in the file; None: they are in chunks.
            self.start = found.id.get_offset() if plain else None
        self._unpacked: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the temporary file: a worker that is not forked makes its own."""
        return self.__dict__ | {"_unpacked": None}

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        if self.start is not None:
            # The map is let go each time: its pages would count as memory of this process.
            return np.array(np.memmap(self.path, self.dtype, "r", self.start, self.shape)[rows])
        if self._unpacked is None and 0 < self._size < shutil.disk_usage(tempfile.gettempdir()).free // 2:
            self._unpack()
        if self._unpacked is not None:
            return np.array(np.memmap(self._unpacked, self.dtype, "r", 0, self.shape)[rows])
        unique, back = np.unique(rows, return_inverse=True)
        with complaints(self.path, "HDF5"), open_hdf5(self.path) as file:
            return np.asarray(stored(self.path, file, self.key)[unique])[back]

    @property
    def _size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def _unpack(self) -> None:
        target = tempfile.TemporaryFile()  # noqa: SIM115 (closed when this object goes)
        weakref.finalize(self, target.close)
        step = max(len(self) * PIECE // max(self._size, 1), 1)
        with complaints(self.path, "HDF5"), open_hdf5(self.path) as file:
            found = stored(self.path, file, self.key)
            for first in range(0, len(self), step):
                target.write(np.ascontiguousarray(found[first : first + step]).tobytes())
        target.flush()
        self._unpacked = target
