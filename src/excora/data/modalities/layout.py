"""MMSA's layout from a pickle, an .npz or a converted .safetensors: by part and name, then all clips together.

    {"train": {"text": (n, steps, width), "audio_lengths": (n,), "regression_labels": (n,), ...}, "valid": ...}

In an .npz the names are ``train/text``. A file without parts, ``{"text": ...}``, holds clips that nobody has split.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.files import members, read_member
from excora.data.hdf5 import complaints
from excora.data.modalities.content import MODALITIES
from excora.data.modalities.unpickling import read_pickle
from excora.errors import InputError

PICKLES = (".pkl", ".pickle")
#: Words for a part, and the name it has here.
PARTS = {
    "train": "train", "valid": "validation", "validation": "validation", "val": "validation", "dev": "validation",
    "test": "test",
}  # fmt: skip


class Layout(NamedTuple):
    """Arrays with an entry a clip, by name, and the part of each clip; None if the file has no parts."""

    arrays: dict[str, NDArray[Any]]
    part: NDArray[np.object_] | None
    facts: dict[str, str]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))


def read_layout(path: Path) -> Layout:
    """The file's arrays; what is no such layout is an InputError."""
    if path.suffix.lower() in PICKLES:
        return joined(path, read_pickle(path))
    return joined(path, _npz(path))


def holds(path: Path) -> bool:
    """Whether an .npz has this layout, by the names in it; never an error."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return False
    parts = {*PARTS, ""}
    found = [name.rpartition("/") for name in names]
    return any(part in parts and last in (*MODALITIES, "text_bert") for part, _, last in found)


def _npz(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with complaints(path, "an .npz of plain arrays"), zipfile.ZipFile(path) as archive:
        for name, member in members(path, archive).items():
            part, _, last = name.rpartition("/")
            (found.setdefault(part, {}) if part else found)[last] = read_member(archive, member)
    return found


def joined(path: Path, content: Any) -> Layout:
    """The parts end to end: train, validation, test."""
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"{path}: expected a dictionary of train, valid and test, got {type(content).__name__}")
    parts = {PARTS[key]: value for key, value in content.items() if key in PARTS and isinstance(value, dict)}
    if not parts:
        return Layout(_arrays(path, "", content), None, {})
    parts = {name: parts[name] for name in dict.fromkeys(PARTS.values()) if name in parts}
    made = {name: _arrays(path, name, value) for name, value in parts.items()}
    made = {name: arrays for name, arrays in made.items() if len(next(iter(arrays.values())))}
    if not made:
        raise InputError(f"{path}: no part of it holds a clip")
    common = [key for key in next(iter(made.values())) if all(key in arrays for arrays in made.values())]
    for key in MODALITIES:
        if any(key in arrays for arrays in made.values()) and key not in common:
            lacks = ", ".join(name for name, arrays in made.items() if key not in arrays)
            raise InputError(f"{path}: {key} is missing from {lacks}: leave it out with drop={key}, or add it")
    labels = [np.full(len(arrays[common[0]]), name, object) for name, arrays in made.items()]
    return Layout({key: _ended(path, key, made) for key in common}, np.concatenate(labels), {})


def _ended(path: Path, key: str, parts: dict[str, dict[str, NDArray[Any]]]) -> NDArray[Any]:
    arrays = [part[key] for part in parts.values()]
    if len({array.shape[1:] for array in arrays}) > 1:
        shapes = ", ".join(f"{name} {part[key].shape}" for name, part in parts.items())
        raise InputError(f"{path}: {key} must have the same steps and width in every part, got {shapes}")
    return np.concatenate(arrays)


def _arrays(path: Path, part: str, content: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Those with an entry a clip; how many clips there are the first of the modalities says."""
    where = f"{path}, {part}" if part else str(path)
    found: dict[str, NDArray[Any]] = {}
    for key, value in content.items():
        if isinstance(value, list | tuple | np.ndarray):
            try:
                found[key] = np.asarray(value)
            except ValueError:  # sequences of several lengths in a list
                if key in MODALITIES:
                    raise InputError(f"{where}: {key} must be one array, padded to one length, got a list") from None
    known = [key for key in (*MODALITIES, "text_bert", "raw_text") if key in found and found[key].ndim]
    if not known:
        have = ", ".join(map(str, list(content)[:8])) or "nothing"
        raise InputError(f"{where}: expected any of text, audio, vision, text_bert, raw_text, got {have}")
    clips = len(found[known[0]])
    if wrong := [key for key in known if len(found[key]) != clips]:
        raise InputError(f"{where}: {known[0]} has {clips} clips and {wrong[0]} has {len(found[wrong[0]])}")
    return {key: value for key, value in found.items() if value.ndim and len(value) == clips}
