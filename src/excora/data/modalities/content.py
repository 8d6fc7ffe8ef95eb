"""Clips as sequences of several modalities: as the user has them, as a model needs to know them, and prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.data.bags.statistics import ElementStatistics
from excora.data.bags.stores import Bags, ChosenBags
from excora.data.dataset import Index, Inputs, Spec
from excora.data.scaling import CLIP
from excora.errors import InputError

#: What a clip may have, in this order everywhere.
MODALITIES = ("text", "audio", "vision")


class Modality(NamedTuple):
    """Of a network's input: ``width`` features of each of at most ``length`` steps; width 0: token ids."""

    name: str
    width: int
    length: int

    @property
    def ids(self) -> bool:
        """Whether the steps are token ids, for a text encoder, and not features."""
        return self.width == 0


@dataclass(frozen=True, kw_only=True)
class ModalitySpec(Spec):
    """What a network reads: of each modality NAME the input ``NAME`` (n, length, width), 0 behind ``NAME_length`` (n,).

    Text as ids is the input ``text_ids`` (n, length), with ``text_length``.

    >>> spec = ModalitySpec(targets=1, modalities=(Modality("text", 768, 50), Modality("audio", 5, 375)))
    >>> spec["audio"].width, "vision" in spec, spec.aligned
    (5, False, False)
    >>> spec.need("tfn", "text", "audio", "vision")
    Traceback (most recent call last):
    ...
    excora.errors.InputError: model 'tfn' needs vision, and these data have text, audio: take another model
    """

    kind: ClassVar[str] = "modalities"
    modalities: tuple[Modality, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the modalities that there are."""
        return tuple(one.name for one in self.modalities)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Modality:
        for one in self.modalities:
            if one.name == name:
                return one
        raise InputError(f"these data have no {name}, only {', '.join(self.names)}")

    @property
    def aligned(self) -> bool:
        """Whether all modalities have the same number of steps."""
        return len({one.length for one in self.modalities}) == 1

    def need(self, model: str, *names: str) -> None:
        """An InputError that names the model, unless all of these are there."""
        if missing := [name for name in names if name not in self]:
            raise InputError(
                f"model {model!r} needs {' and '.join(missing)}, and these data have {', '.join(self.names)}: take "
                f"another model"
            )

    @property
    def summary(self) -> int:
        """The mean of each feature over the steps, and the log of their number, by modality."""
        return sum(one.width + 1 for one in self.modalities)

    def summarise(self, inputs: Inputs) -> Tensor:
        """[mean over the real steps, log of their number] of each modality, (n, summary); of ids the latter alone."""
        parts = []
        for one in self.modalities:
            length = inputs[f"{one.name}_length"]
            assert isinstance(length, Tensor)
            if not one.ids:
                values = inputs[one.name]
                assert isinstance(values, Tensor)
                parts.append(values.sum(1) / length.unsqueeze(1))  # zeros behind the end
            parts.append(length.unsqueeze(1).to(torch.get_default_dtype()).log())
        dtype = torch.promote_types(parts[0].dtype, torch.float32)
        return torch.cat([part.to(dtype) for part in parts], 1)


@dataclass(frozen=True, eq=False)
class Frames:
    """The real steps of one modality, clip after clip, and how many steps the file has room for."""

    bags: Bags
    longest: int
    padding: str = "none"  #: where the file had the steps that are none: "left", "right", "none"

    def take(self, index: Index) -> Frames:
        """Of the clips of ``index``; a view."""
        return Frames(ChosenBags(self.bags, index), self.longest, self.padding)


@dataclass(frozen=True, eq=False)
class ModalitySet:
    """Clips, one a sample."""

    kind: ClassVar[str] = "modalities"
    frames: Mapping[str, Frames]  #: by modality, in the order of :data:`MODALITIES`
    words: NDArray[np.object_] | None = None  #: (n,) the transcript
    pieces: NDArray[np.object_] | None = None  #: (n,) names of the steps of the text, separated by blanks
    tokens: NDArray[np.int64] | None = None  #: (n, steps) ids of BERT's word pieces, -1 behind the last one
    facts: Mapping[str, str] = field(default_factory=dict)  #: what the file is, in words

    def __len__(self) -> int:
        held = self.words if self.words is not None else self.tokens
        return (
            len(next(iter(self.frames.values())).bags.lengths) if self.frames else len(held if held is not None else ())
        )

    def take(self, index: Index) -> ModalitySet:
        """The clips of ``index``, in that order."""

        def some(part: Any) -> Any:
            return None if part is None else part[index]

        frames = {name: one.take(index) for name, one in self.frames.items()}
        return ModalitySet(frames, some(self.words), some(self.pieces), some(self.tokens), self.facts)

    def mark(self, found: Any) -> None:
        """Lengths, the sum of every clip's features, and the words."""
        for name, one in self.frames.items():
            found.update(f"{name} {one.bags.width} {one.longest}".encode())
            found.update(np.asarray(one.bags.lengths, np.int64).tobytes())
            for places in np.array_split(np.arange(len(self)), -(-len(self) // 256)):
                if len(places):
                    starts = np.cumsum([0, *one.bags.lengths[places][:-1]])
                    sums = np.add.reduceat(one.bags.gather(places), starts, 0, dtype=np.float64)
                    found.update(np.ascontiguousarray(sums).tobytes())
        for part in (self.words, self.tokens):
            found.update(b"-" if part is None else "\0".join(map(str, part.tolist())).encode())

    def step_name(self, modality: str, sample: int, step: int) -> str:
        """What a step is called: the word or word piece of a text, else its number among the steps or frames."""
        if modality == "text":
            held = "" if self.pieces is None else str(self.pieces[sample])
            names = held.split() or ([] if self.words is None else str(self.words[sample]).split())
            length = int(self.frames["text"].bags.lengths[sample]) if "text" in self.frames else len(names)
            if len(names) == length - 2:
                names = ["[CLS]", *names, "[SEP]"]
            if len(names) == length and step < length:
                return names[step]
        return f"{'step' if modality == 'text' else 'frame'} {step}"


class ModalityFeatures:
    """Clips, standardised as they are read and padded on the right to one length."""

    def __init__(
        self, content: ModalitySet, spec: ModalitySpec, statistics: Mapping[str, ElementStatistics],
        tokens: NDArray[np.int64] | None, piece: Callable[[int, int], str] | None = None,
    ) -> None:  # fmt: skip
        self._content, self._spec, self._tokens, self._piece = content, spec, tokens, piece
        self._scales = {
            name: (np.array(one.mean, np.float32), np.minimum(1 / np.array(one.std), 1e30).astype(np.float32))
            for name, one in statistics.items()
        }
        self.sizes: Index = np.full(len(content), sum(one.length for one in spec.modalities), np.intp)

    def element_name(self, pool: str, sample: int, step: int) -> str:
        """What a pool that is called after a modality weighs; ``piece`` names the ids of a text, by sample and step."""
        if pool == "text" and self._piece is not None:
            return self._piece(sample, step)
        return self._content.step_name(pool, sample, step)

    def read(self, index: Index) -> Inputs:
        """The clips of ``index``: of each modality (n, length, width) float32 and its lengths (n,) int64."""
        found: Inputs = {}
        for one in self._spec.modalities:
            if one.ids:
                assert self._tokens is not None
                ids = self._tokens[index, : one.length]
                lengths = (ids >= 0).sum(1)
                room = np.zeros((len(index), one.length), np.int64)
                room[:, : ids.shape[1]] = np.maximum(ids, 0)
                found["text_ids"] = torch.from_numpy(room)
            else:
                bags = self._content.frames[one.name].bags
                lengths = np.asarray(bags.lengths[index], np.int64)
                found[one.name] = torch.from_numpy(self._padded(one, bags.gather(index), lengths))
            found[f"{one.name}_length"] = torch.from_numpy(np.minimum(lengths, one.length).astype(np.int64))
        return found

    def _padded(self, one: Modality, values: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Standardised: (values - mean) / std; 0 behind the last real step, what is beyond the length cut."""
        if one.name in self._scales:
            mean, factor = self._scales[one.name]
            with np.errstate(over="ignore"):
                values -= mean
                values *= factor
            np.clip(values, -CLIP, CLIP, out=values)
        step = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        clip, kept = np.repeat(np.arange(len(lengths)), lengths), step < one.length
        padded = np.zeros((len(lengths), one.length, one.width), np.float32)
        padded[clip[kept], step[kept]] = values[kept]
        return padded
