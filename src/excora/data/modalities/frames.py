"""The real steps of padded sequences: their lengths, the side of the padding, and what had to be repaired.

Published loaders replace -inf in audio by 0 and read lengths for unaligned data alone, so that models attend to
padding. Here every sequence has a length: from the file, from the mask of its word pieces, from the text that it is
aligned with, or up to its last step that is not all zeros, in that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.stores import ArrayBags
from excora.data.modalities.content import Frames
from excora.errors import InputError

Lengths = NDArray[np.int64]
#: Share of values that are not finite from which on a modality is refused: nothing would be left of it.
MOST_BROKEN = 0.5


class Found(NamedTuple):
    """Sequences without their padding, and what was done to them, in words with a count."""

    frames: Frames
    lengths: Lengths
    notes: tuple[str, ...]


def real_frames(name: str, values: NDArray[Any], lengths: NDArray[Any] | None, ids: Any) -> Found:
    """From ``values`` (clips, steps, width), or (clips, width) for one step a clip, and lengths, if they are known.

    >>> values = np.array([[[0.0], [0.0], [1.0]], [[0.0], [3.0], [-np.inf]]])
    >>> found = real_frames("audio", values, None, "ab")
    >>> found.lengths.tolist(), found.frames.padding, found.frames.bags.read(0).tolist()
    ([1, 2], 'left', [[1.0]])

    What cannot be steps is an InputError.
    """
    values = values[:, None] if values.ndim == 2 else values
    if values.ndim != 3 or values.dtype.kind not in "fiub" or 0 in values.shape[1:]:
        raise InputError(
            f"{name} must hold numbers of shape (clips, steps, width), got {values.dtype} of {values.shape}"
        )
    with np.errstate(over="ignore"):
        values = np.array(values, np.float32)
    notes = [*_repair(name, values)]
    first, last = _extent(values)
    steps = values.shape[1]
    if lengths is None:
        left = ((first > 0) & (last == steps)).sum() > ((first == 0) & (last < steps)).sum()
        found = np.where(last > 0, steps - first if left else last, 0)
    else:
        found, more = _checked(name, lengths, steps, ids)
        notes += more
        short = found < steps
        left = (short & (first >= steps - found)).sum() > (short & (last <= found)).sum()
        beyond = int((first < steps - found if left else last > found)[short].sum())
        notes += _counted(
            beyond, f"{name}: {{}} with features beyond the length that the file gives: these are ignored"
        )
    empty = found < 1
    notes += _counted(int(empty.sum()), f"{name}: {{}} without any step: one step of zeros stands for it")
    found = np.maximum(found, 1).astype(np.int64)
    place = np.arange(steps)
    real = place >= (steps - found)[:, None] if left else place < found[:, None]
    padding = "none" if real.all() else "left" if left else "right"
    return Found(Frames(ArrayBags(values[real], found, [str(one) for one in ids]), steps, padding), found, tuple(notes))


def _repair(name: str, values: NDArray[np.float32]) -> list[str]:
    """Make what is not finite 0, in place."""
    broken = ~np.isfinite(values)
    if not broken.any():
        return []
    if broken.mean() > MOST_BROKEN:
        raise InputError(f"{name}: {broken.mean():.0%} of the values are not finite: leave it out with drop={name}")
    kinds = {"NaN": np.isnan(values), "-inf": np.isneginf(values), "inf": np.isposinf(values)}
    counts = [f"{int(where.sum()):,} {word}" for word, where in kinds.items() if where.any()]
    values[broken] = 0.0
    return [f"{name}: {' and '.join(counts)} read as 0, as the published loaders do with -inf"]


def _extent(values: NDArray[np.float32]) -> tuple[Lengths, Lengths]:
    """The first step of each clip that is not all zeros, and the one after the last; (steps, 0) if none is."""
    there: NDArray[np.bool_] = np.any(values, axis=2)
    steps, some = there.shape[1], there.any(1)
    first = np.where(some, there.argmax(1), steps)
    last = np.where(some, steps - there[:, ::-1].argmax(1), 0)
    return first.astype(np.int64), last.astype(np.int64)


def _checked(name: str, lengths: NDArray[Any], steps: int, ids: Any) -> tuple[Lengths, list[str]]:
    found = np.asarray(lengths, np.float64).reshape(len(lengths), -1)
    bad = ~(found == np.floor(found)).all(1) | ~(found >= 0).all(1)
    if found.shape[1] != 1 or bad.any():
        which = f", got {lengths[int(bad.argmax())]} for {ids[int(bad.argmax())]!r}" if bad.any() else ""
        raise InputError(f"the lengths of {name} must be one whole number a clip, 0 or more{which}")
    found = found[:, 0]
    over = int((found > steps).sum())
    notes = _counted(over, f"{name}: {{}} of a length beyond the {steps} steps of the file: cut to {steps}")
    return np.minimum(found, steps).astype(np.int64), notes


def _counted(count: int, text: str) -> list[str]:
    return [text.format("1 clip" if count == 1 else f"{count:,} clips")] if count else []
