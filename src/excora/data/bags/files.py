"""One bag a file: its size from the header, its elements on request; .h5, .npz, .safetensors and .pt."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.hdf5 import complaints, open_hdf5, stored
from excora.errors import InputError

FORMATS = (".h5", ".hdf5", ".npz", ".safetensors", ".pt")

#: The array that is read if a file has it.
KEY = "features"

#: Bytes from which an array that was compressed more than 200 times is taken for one that is to fill the memory.
BOMB = 1 << 30

#: Positions of the elements: two-dimensional like the features, and no features.
POSITIONS = ("coords", "coordinates")


class Header(NamedTuple):
    """What a file says of its bag before it is read."""

    key: str
    rows: int
    width: int


class Member(NamedTuple):
    """An array inside an .npz: where its numbers start in the file (None if compressed), and their layout."""

    name: str
    start: int | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


def read_header(path: Path) -> Header:
    """Key, rows and width of the bag in a file, without reading its elements (but of an old .pt)."""
    return _choose(path, _shapes(path, KEY))


def read_elements(path: Path, key: str) -> NDArray[Any]:
    """The bag as it is stored, (rows, width); a first axis of length 1, as some pipelines write it, is dropped."""
    found = _read(path, key)
    return found[0] if found.ndim == 3 and len(found) == 1 else found


def read_positions(path: Path, rows: int) -> NDArray[np.float64] | None:
    """Where the elements lie, (rows, 2), from an array called ``coords``; None if the file has no such array."""
    for key, shape in _shapes(path, None).items():
        if key.lower() in POSITIONS and _flat(shape) == (rows, 2):
            found = _read(path, key).reshape(rows, 2).astype(np.float64)
            return found if np.isfinite(found).all() else None
    return None


def _shapes(path: Path, first: str | None) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays in a file by name; of ``first`` alone, if it is there."""
    kind = path.suffix.lower()
    with complaints(path, _KINDS[kind]):
        if kind == ".npz":
            with zipfile.ZipFile(path) as archive:
                only = first if f"{first}.npy" in archive.namelist() else None
                return {name: member.shape for name, member in members(path, archive, only).items()}
        if kind == ".safetensors":
            return _safetensors_shapes(path)
        if kind == ".pt":
            return {name: tuple(tensor.shape) for name, tensor in _tensors(path).items()}
        return _hdf5_shapes(path, first)


def _read(path: Path, key: str) -> NDArray[Any]:
    kind = path.suffix.lower()
    with complaints(path, _KINDS[kind]):
        if kind == ".npz":
            with zipfile.ZipFile(path) as archive:
                return read_member(archive, members(path, archive, key)[key])
        if kind == ".safetensors":
            from safetensors import safe_open

            with safe_open(path, framework="pt") as file:
                return file.get_tensor(key).float().numpy()
        if kind == ".pt":
            return _tensors(path)[key].float().numpy()
        with open_hdf5(path) as file:
            return stored(path, file, key)[()]


_KINDS = {
    ".h5": "HDF5", ".hdf5": "HDF5", ".npz": "an .npz of plain arrays", ".safetensors": "safetensors",
    ".pt": "tensors that torch saved (nothing else in a .pt is ever loaded)",
}  # fmt: skip


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without a first axis of length 1 before two others."""
    return shape[1:] if len(shape) == 3 and shape[0] == 1 else shape


def _choose(path: Path, found: dict[str, tuple[int, ...]]) -> Header:
    """The features among the arrays of a file: ``features``, or the only two-dimensional array."""
    found = {name: _flat(shape) for name, shape in found.items()}
    if KEY in found:
        key = KEY
    else:
        flat = [name for name, shape in found.items() if len(shape) == 2 and name.lower() not in POSITIONS]
        if len(flat) != 1:
            have = ", ".join(f"{name} {shape}" for name, shape in sorted(found.items())[:8]) or "nothing"
            raise InputError(
                f"{path}: expected an array {KEY!r} of shape (elements, width), or one two-dimensional array, "
                f"got {have}"
            )
        key = flat[0]
    shape = found[key]
    if len(shape) != 2:
        raise InputError(f"{path}: {key!r} must have shape (elements, width), got {shape}")
    return Header(key, *shape)


# HDF5 ----------------------------------------------------------------------------------------------------------------


def _hdf5_shapes(path: Path, first: str | None) -> dict[str, tuple[int, ...]]:
    with open_hdf5(path) as file:
        names = [first] if first is not None and file.id.links.exists(first.encode()) else list(file)
        found = {name: stored(path, file, name) for name in names}
        for name, dataset in found.items():
            if name == KEY and dataset is not None and dataset.dtype.kind not in "fiub":
                raise InputError(f"{path}: {name!r} must hold numbers, got {dataset.dtype}")
        return {name: tuple(dataset.shape or ()) for name, dataset in found.items() if dataset is not None}


# safetensors ---------------------------------------------------------------------------------------------------------


def _safetensors_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (no mapping)


# pt ------------------------------------------------------------------------------------------------------------------


def _tensors(path: Path) -> dict[str, Any]:
    """The tensor of a file, or the tensors of its dictionary; mapped into memory where torch can."""
    import torch

    try:
        try:
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError as error:
            if "mmap" not in str(error):
                raise
            found = torch.load(path, map_location="cpu", weights_only=True)  # a file of torch before 1.6
    except pickle.UnpicklingError:  # torch's words advise to load it all the same
        raise InputError(
            f"{path}: it holds more than tensors (nothing else in a .pt is ever loaded), or is damaged: save a tensor, "
            "or a dictionary of tensors"
        ) from None
    found = found if isinstance(found, dict) else {KEY: found}
    return {str(name): x for name, x in found.items() if isinstance(x, torch.Tensor) and not x.is_complex()}


# npz -----------------------------------------------------------------------------------------------------------------


def members(path: Path, archive: zipfile.ZipFile, only: str | None = None) -> dict[str, Member]:
    """The arrays of an .npz, or ``only`` one of them, by their headers."""
    names = [info.filename for info in archive.infolist() if info.filename.endswith(".npy")]
    wanted = names if only is None else [name for name in names if name == f"{only}.npy"]
    if not wanted:
        raise InputError(f"{path}: expected an .npz with arrays, got {', '.join(archive.namelist()[:8]) or 'nothing'}")
    return {name.removesuffix(".npy"): _member(path, archive, name) for name in wanted}


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Member:
    info = archive.getinfo(name)
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(file)
        header = file.tell()
    key = name.removesuffix(".npy")
    if dtype.hasobject:
        raise InputError(f"{path}: {key!r} holds Python objects, which are never loaded; save plain arrays")
    size = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize if shape else dtype.itemsize
    if header + size != info.file_size or min(shape, default=0) < 0:
        raise InputError(f"{path}: {key!r} is cut off: {size} bytes announced, {info.file_size - header} there")
    start = None
    if info.compress_type == zipfile.ZIP_STORED and archive.fp is not None:
        archive.fp.seek(info.header_offset)
        local = archive.fp.read(30)
        lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        start = info.header_offset + 30 + lengths + header
    return Member(name, start, tuple(int(n) for n in shape), dtype, fortran)


def read_member(archive: zipfile.ZipFile, member: Member) -> NDArray[Any]:
    """All of an array, its checksum verified; a small file that would fill the memory is refused."""
    info = archive.getinfo(member.name)
    if info.file_size > max(BOMB, 200 * info.compress_size):
        raise InputError(
            f"{archive.filename}: {member.name.removesuffix('.npy')!r} would grow from {info.compress_size / 1e6:,.1f} "
            f"to {info.file_size / 1e6:,.0f} MB of memory; if that is meant, save it by np.savez, not compressed"
        )
    with archive.open(member.name) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # zipfile compares the checksum at the end
    return array


def map_member(path: Path, member: Member) -> NDArray[Any] | None:
    """An uncompressed array as a memory map; None for a compressed or empty one."""
    if member.start is None or 0 in member.shape:
        return None
    order = "F" if member.fortran else "C"
    return np.memmap(path, member.dtype, "r", member.start, member.shape, order)  # type: ignore[call-overload]
