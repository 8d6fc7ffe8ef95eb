"""Text as token ids: the file's own (``text_bert``), or those of a tokenizer from a local folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.modalities.content import ModalitySet
from excora.errors import InputError, MissingExtraError

#: Word pieces of a clip that are kept, the marks of begin and end included.
MOST = 64

Ids = NDArray[np.int64]


def from_bert(values: NDArray[Any]) -> Ids:
    """(n, steps): the ids of MMSA's ``text_bert`` (n, 3, steps) where its mask is 1, and -1 behind them.

    >>> from_bert(np.array([[[101, 7, 102], [1, 1, 1], [0, 0, 0]], [[101, 102, 0], [1, 1, 0], [0, 0, 0]]])).tolist()
    [[101, 7, 102], [101, 102, -1]]
    """
    values = np.asarray(values)
    if values.ndim != 3 or values.shape[1] != 3 or values.dtype.kind not in "fiu":
        raise InputError(f"text_bert must hold ids, mask and segments, (clips, 3, steps), got {values.shape}")
    ids, mask = values[:, 0], values[:, 1] == 1
    if not np.isfinite(ids).all() or (ids < 0).any() or (ids != np.floor(ids)).any():
        raise InputError("the ids of text_bert must be whole numbers, 0 or more")
    return packed([row[keep] for row, keep in zip(ids.astype(np.int64), mask, strict=True)], ids.shape[1])


def packed(rows: Any, most: int) -> Ids:
    """Ids of several lengths as (n, longest of them), -1 behind the last one; a clip without any has one 0."""
    cut = [np.asarray(row[:most], np.int64) if len(row) else np.zeros(1, np.int64) for row in rows]
    found = np.full((len(cut), max(map(len, cut), default=1)), -1, np.int64)
    for place, row in enumerate(cut):
        found[place, : len(row)] = row
    return found


def read_tokenizer(folder: str) -> str:
    """The content of a checkpoint folder's tokenizer.json, which a run folder keeps; nothing in it can run."""
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{folder}: expected a folder with a tokenizer.json, as transformers writes it")
    text = path.read_text("utf-8", errors="replace")
    _tokenizer(text)
    return text


@functools.lru_cache(4)
def _tokenizer(text: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "sentiment") from error
    try:
        found = Tokenizer.from_str(text)
    except Exception as error:  # the parser has no error class of its own
        raise InputError(f"this is no tokenizer.json: {str(error)[:200]}") from None
    found.no_padding()
    found.enable_truncation(MOST)
    return found


def encode(content: ModalitySet, tokenizer: str) -> Ids:
    """(n, longest): the transcripts in the ids of a tokenizer, the content of its file; with "" those of the file."""
    if not tokenizer:
        if content.tokens is None:
            raise InputError("these data have no text_bert: name the folder of a tokenizer, for their raw_text")
        return content.tokens
    if content.words is None:
        raise InputError("these data have no raw_text, so no tokenizer can read it: add it, or use text features")
    found = _tokenizer(tokenizer).encode_batch([str(text) for text in content.words])
    return packed([one.ids for one in found], MOST)


def piece(content: ModalitySet, tokenizer: str, sample: int, step: int) -> str:
    """What a step of :func:`encode` is called: the word piece; of the file's own ids the word, if they are words.

    >>> content = ModalitySet({}, np.array(["not bad"], object), tokens=np.array([[101, 7, 8, 102]]))
    >>> [piece(content, "", 0, step) for step in range(4)]
    ['[CLS]', 'not', 'bad', '[SEP]']
    """
    said = "" if content.words is None else str(content.words[sample])
    if tokenizer:
        names = _tokenizer(tokenizer).encode(said).tokens
    else:
        names = ["[CLS]", *said.split(), "[SEP]"]
        length = 0 if content.tokens is None else int((content.tokens[sample] >= 0).sum())
        names = names if len(names) == length else []
    return str(names[step]) if step < len(names) else f"step {step}"


def pieces(texts: Any, folder: str) -> NDArray[np.object_]:
    """The word pieces of each text, separated by blanks, for people to read."""
    found = _tokenizer(read_tokenizer(folder)).encode_batch([str(text) for text in texts])
    return np.array([" ".join(one.tokens) for one in found], object)
