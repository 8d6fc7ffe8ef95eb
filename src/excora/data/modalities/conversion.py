"""MMSA's pickle once, then safetensors: the same clips without padding, half the time to read, nothing that could run.

text, text_lengths, ...      the real steps of a modality end to end, (total, width) float32, and their number a clip
tokens                       ids of word pieces, (n, steps) int64, -1 behind the last one
labels/NAME, column/NAME     numbers with an entry a clip
metadata "excora"            JSON: ids, parts, transcripts, groups, facts, notes
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.stores import ArrayBags
from excora.data.hdf5 import complaints
from excora.data.modalities.content import MODALITIES, Frames, ModalitySet
from excora.errors import InputError
from excora.storage import write_atomically

MARK = "excora"
KIND = "modalities"


class Clips(NamedTuple):
    """A file's clips: content, and what has an entry a clip beside it."""

    content: ModalitySet
    ids: NDArray[np.object_]
    part: NDArray[np.object_] | None
    columns: dict[str, NDArray[Any]]  #: (n,) numbers or text
    notes: tuple[str, ...]


def write_clips(path: Path, clips: Clips) -> None:
    """One .safetensors file, written whole or not at all."""
    from safetensors.numpy import save

    content, n = clips.content, len(clips.ids)
    tensors: dict[str, NDArray[Any]] = {}
    words: dict[str, Any] = {
        "kind": KIND,
        "ids": clips.ids.tolist(),
        "notes": clips.notes,
        "facts": dict(content.facts),
    }
    for name, one in content.frames.items():
        tensors |= {name: one.bags.gather(np.arange(n)), f"{name}_lengths": np.asarray(one.bags.lengths, np.int64)}
        words[name] = {"longest": one.longest, "padding": one.padding}
    if content.tokens is not None:
        tensors["tokens"] = content.tokens
    named = {"part": clips.part, "words": content.words, "pieces": content.pieces}
    words |= {name: [str(one) for one in held] for name, held in named.items() if held is not None}
    for name, held in clips.columns.items():
        if held.dtype.kind == "f":
            tensors[f"column/{name}"] = held.astype(np.float64)
        else:
            words[f"column/{name}"] = [str(one) for one in held]
    tensors = {name: np.ascontiguousarray(held) for name, held in tensors.items()}
    write_atomically(path, save(tensors, {MARK: json.dumps(words)}))


def is_converted(path: Path) -> bool:
    """Whether a .safetensors file is one of these, by its header; never an error."""
    try:
        return _header(path).get("kind") == KIND
    except Exception:  # a foreign file fails in as many ways as there are files
        return False


def read_clips(path: Path) -> Clips:
    """What :func:`write_clips` wrote; anything else is an InputError."""
    from safetensors.numpy import load_file

    with complaints(path, "clips that Excora converted"):
        words, tensors = _header(path), load_file(path)
        if words.get("kind") != KIND:
            raise InputError(f"{path}: expected clips that Excora converted, got another .safetensors file")
        ids = np.array([str(one) for one in words["ids"]], object)
        frames = {
            name: Frames(
                ArrayBags(tensors[name], tensors[f"{name}_lengths"], ids.tolist()),
                int(words[name]["longest"]),
                str(words[name]["padding"]),
            )
            for name in MODALITIES
            if name in tensors
        }

        def column(name: str) -> NDArray[np.object_] | None:
            held = words.get(name)
            return None if held is None else np.array([str(one) for one in held], object)

        tokens = tensors.get("tokens")
        content = ModalitySet(frames, column("words"), column("pieces"), tokens, dict(words["facts"]))
        named = {name.removeprefix("column/"): tensors[name] for name in tensors if name.startswith("column/")}
        texts = {name.removeprefix("column/"): column(name) for name in words if name.startswith("column/")}
        columns: dict[str, Any] = named | texts
        found = Clips(content, ids, column("part"), columns, tuple(map(str, words["notes"])))
        _check(path, found)
        return found


def _header(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        found = json.loads((file.metadata() or {}).get(MARK, "{}"))
    if not isinstance(found, dict):
        raise InputError(f"{path}: the description of the clips must be an object")
    return found


def _check(path: Path, clips: Clips) -> None:
    """An entry a clip everywhere, and lengths within what there is room for."""
    n, content = len(clips.ids), clips.content
    held = {"part": clips.part, "words": content.words, "pieces": content.pieces, "tokens": content.tokens}
    held |= clips.columns | {name: one.bags.lengths for name, one in content.frames.items()}
    for name, values in held.items():
        if values is not None and len(values) != n:
            raise InputError(f"{path}: {name} must have an entry for each of the {n} clips, got {len(values)}")
    for name, one in content.frames.items():
        if not n or one.bags.lengths.min() < 1 or one.bags.lengths.max() > one.longest:
            raise InputError(f"{path}: the lengths of {name} must be 1 to {one.longest}")
    if content.tokens is not None and (content.tokens.ndim != 2 or content.tokens.dtype != np.int64):
        raise InputError(f"{path}: tokens must be whole numbers, (clips, steps)")
