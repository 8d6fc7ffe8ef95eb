"""From MMSA's arrays to clips: real steps by modality, transcripts, ids, labels; with every repair counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.modalities.content import MODALITIES, Frames, ModalitySet
from excora.data.modalities.conversion import Clips, read_clips
from excora.data.modalities.frames import real_frames
from excora.data.modalities.known import checksum, identity
from excora.data.modalities.layout import Layout, read_layout
from excora.data.modalities.tokens import from_bert
from excora.errors import InputError

#: Between video and clip in MMSA's names.
JOINT = "$_$"
#: What is read as something else than a column of numbers or text.
TAKEN = {*MODALITIES, "text_bert", "raw_text", "id", "pieces", *(f"{name}_lengths" for name in MODALITIES)}


def clips_in(path: Path, drop: tuple[str, ...] = ()) -> Clips:
    """The clips of a file, without the modalities in ``drop``."""
    if path.suffix.lower() == ".safetensors":
        clips = read_clips(path)
    else:
        layout = read_layout(path)
        clips = assemble(layout)
        clips.content.facts["file"] = identity(checksum(path), len(layout))  # type: ignore[index]
    content = clips.content
    kept = {name: one for name, one in content.frames.items() if name not in drop}
    if not kept and ("text" in drop or (content.words is None and content.tokens is None)):
        raise InputError(f"{path}: nothing is left of the clips without {', '.join(drop)}")
    left = () if "text" not in drop else (None, None, None)
    held = left or (content.words, content.pieces, content.tokens)
    return clips._replace(content=ModalitySet(kept, *held, content.facts))


def assemble(layout: Layout) -> Clips:
    """All of a layout; what is wrong in it is an InputError."""
    arrays, notes = layout.arrays, []
    ids, group, more = _names(arrays.get("id"), len(layout))
    notes += more
    tokens = from_bert(arrays["text_bert"]) if "text_bert" in arrays else None
    frames: dict[str, Frames] = {}
    text_lengths: NDArray[Any] | None = None
    for name in MODALITIES:
        if name not in arrays:
            continue
        lengths = arrays.get(f"{name}_lengths")
        steps = arrays[name].shape[1] if arrays[name].ndim == 3 else 1
        if lengths is None and name == "text" and tokens is not None and arrays["text_bert"].shape[2] == steps:
            lengths = (tokens >= 0).sum(1)
        aligned = text_lengths is not None and steps == frames["text"].longest > 1
        found = real_frames(name, arrays[name], text_lengths if lengths is None and aligned else lengths, ids)
        frames[name] = found.frames
        notes += found.notes
        text_lengths = found.lengths if name == "text" else text_lengths
    content = ModalitySet(frames, _texts(arrays.get("raw_text")), _texts(arrays.get("pieces")), tokens, {})
    columns = {key: _column(value) for key, value in arrays.items() if key not in TAKEN and _column(value) is not None}
    if group is not None:
        columns["video"] = group
    return Clips(content, ids, layout.part, columns, tuple(notes))  # type: ignore[arg-type]


def _names(values: NDArray[Any] | None, clips: int) -> tuple[NDArray[Any], NDArray[Any] | None, list[str]]:
    """Ids, all different; the video of each clip, where the id says it; notes."""
    if values is None:
        return np.arange(clips).astype(str).astype(object), None, []
    rows = values.reshape(clips, -1)
    parts = [[_decoded(cell) for cell in row] for row in rows.tolist()]
    ids = [JOINT.join(row) for row in parts]
    group = None
    if all(JOINT in one for one in ids):
        videos = [one.rpartition(JOINT)[0] if len(row) == 1 else row[0] for one, row in zip(ids, parts, strict=True)]
        group = np.array(videos, object)
    seen: Counter[str] = Counter()
    for place, one in enumerate(ids):
        seen[one] += 1
        if seen[one] > 1:
            ids[place] = f"{one} ({seen[one]})"
    twice = sum(count > 1 for count in seen.values())
    notes = [f"{twice} ids come more than once: the later ones have a number behind them"] if twice else []
    return np.array(ids, object), group, notes


def _decoded(cell: Any) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _texts(values: NDArray[Any] | None) -> NDArray[np.object_] | None:
    if values is None:
        return None
    return np.array([_decoded(cell) for cell in values.reshape(len(values), -1)[:, 0].tolist()], object)


def _column(values: NDArray[Any]) -> NDArray[Any] | None:
    """(n,) numbers as float64, text as objects; None for anything with more than an entry a clip."""
    if values[:1].size != 1:
        return None
    flat = values.reshape(len(values))
    if flat.dtype.kind in "fiub":
        return flat.astype(np.float64)
    try:
        return np.array([np.nan if cell is None else cell for cell in flat.tolist()], np.float64)
    except (TypeError, ValueError):
        return np.array([_decoded(cell) for cell in flat.tolist()], object)
