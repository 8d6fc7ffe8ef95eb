"""Clips on their way to a model: features on one scale, or text as ids; everything learned from training clips."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from excora.data.bags.statistics import ElementStatistics
from excora.data.dataset import Dataset, Index
from excora.data.modalities.content import MODALITIES, Modality, ModalityFeatures, ModalitySet, ModalitySpec
from excora.data.modalities.tokens import MOST, encode, piece, read_tokenizer
from excora.data.scaling import Floats
from excora.data.source import Examination, Prepared
from excora.errors import InputError

SCALINGS = ("standard", "none")
TEXTS = ("features", "ids")


@dataclass(frozen=True)
class PreparedModalities(Prepared):
    """What training clips had."""

    statistics: dict[str, ElementStatistics]  #: by modality, of the real steps
    lengths: dict[str, int]  #: steps that there is room for
    scaling: str = "standard"
    text: str = "features"  #: or "ids"
    tokenizer: str = ""  #: what makes the ids, the content of a tokenizer.json; "": the file has them

    @classmethod
    def learn(cls, dataset: Dataset, index: Index, scaling: str, text: str, tokenizer: str) -> PreparedModalities:
        """From the clips of ``index``; ``tokenizer``: its folder."""
        if scaling not in SCALINGS or text not in TEXTS:
            raise InputError(
                f"scaling must be one of {', '.join(SCALINGS)} and text one of {', '.join(TEXTS)}, got {scaling!r} "
                f"and {text!r}"
            )
        content = clips_of(dataset)
        statistics = {name: ElementStatistics.learn(one.bags, index) for name, one in content.frames.items()}
        lengths = {name: one.longest for name, one in content.frames.items()}
        if text == "ids":
            tokenizer = read_tokenizer(tokenizer) if tokenizer else ""
            ids = encode(content.take(np.asarray(index)), tokenizer)
            lengths = {"text": MOST if tokenizer else ids.shape[1], **{n: x for n, x in lengths.items() if n != "text"}}
        elif not lengths:
            raise InputError("these clips have a transcript and no features: take a model with a text encoder")
        return cls(statistics, lengths, scaling, text, tokenizer)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PreparedModalities:
        """What :meth:`to_dict` gave."""
        statistics = {str(name): ElementStatistics.from_dict(one) for name, one in values["statistics"].items()}
        lengths = {str(name): int(length) for name, length in values["lengths"].items()}
        words = {name: str(values[name]) for name in ("scaling", "text", "tokenizer")}
        known = {*lengths} - ({"text"} if words["text"] == "ids" else set())
        if not known <= {*statistics} <= {*MODALITIES} or not {*lengths} <= {*MODALITIES} or not lengths:
            raise ValueError("each modality has statistics and a length")
        if not all(1 <= length < 1e6 for length in lengths.values()):
            raise ValueError("lengths are 1 or more")
        if words["scaling"] not in SCALINGS or words["text"] not in TEXTS:
            raise ValueError("scaling and text are words of this source")
        return cls(statistics, lengths, **words)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """Features that never change."""
        found = [(name, one.constant, len(one.mean)) for name, one in self.statistics.items()]
        return tuple(f"{k} of {n} features of {name} never change in training" for name, k, n in found if k)

    def spec(self, targets: int) -> ModalitySpec:
        """Width and length of each modality; the width of ids is 0."""
        ids = "text" if self.text == "ids" else None
        sizes = {name: 0 if name == ids else len(self.statistics[name].mean) for name in self.lengths}
        named = [Modality(name, sizes[name], self.lengths[name]) for name in MODALITIES if name in sizes]
        return ModalitySpec(targets=targets, modalities=tuple(named))

    def features(self, dataset: Dataset) -> ModalityFeatures:
        """The clips as they are read in batches."""
        content = self._clips(dataset)
        scales = self.statistics if self.scaling == "standard" else {}
        if self.text != "ids":
            return ModalityFeatures(content, self.spec(1), scales, None)
        named = functools.partial(piece, content, self.tokenizer)
        return ModalityFeatures(content, self.spec(1), scales, encode(content, self.tokenizer), named)

    def matrix(self, dataset: Dataset) -> Floats:
        """The mean of each standardised feature over the steps, and the log of their number, by modality."""
        content, parts = self._clips(dataset), [np.empty((len(dataset), 0))]
        for name, one in self.statistics.items():
            bags = content.frames[name].bags
            means = np.stack([bags.read(place).mean(0, dtype=np.float64) for place in range(len(dataset))])
            parts += [(means - one.mean) / one.std, np.log(bags.lengths)[:, None]]
        if not self.statistics:  # a transcript alone: how many word pieces it has
            parts.append(np.log((encode(content, self.tokenizer) >= 0).sum(1))[:, None])
        return np.concatenate(parts, 1)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""
        found: list[str] = []
        for name, one in self.statistics.items():
            found += [*(f"mean of {name} {k}" for k in range(len(one.mean))), f"log steps of {name}"]
        return tuple(found) or ("log word pieces",)

    def examine(self, dataset: Dataset, index: Index) -> Examination:
        """A feature of a clip is far outside if one of its steps is; longer sequences than training had are cut."""
        content = self._clips(dataset)
        outside, notes = np.zeros(len(index), np.int64), []
        for name, one in self.statistics.items():
            bags = content.frames[name].bags
            outside += one.outside(bags, index)
            longer = int((bags.lengths[index] > self.lengths.get(name, 10**9)).sum())
            if longer:
                notes.append(f"{name}: {longer} longer than the {self.lengths[name]} steps of training are cut there")
        extra = [
            f"{name} is ignored: training has not seen it" for name in content.frames if name not in self.statistics
        ]
        return Examination({}, outside, (*notes, *extra))

    def _clips(self, dataset: Dataset) -> ModalitySet:
        """The clips, if they have what training had."""
        content = clips_of(dataset)
        for name, one in self.statistics.items():
            if name not in content.frames:
                raise InputError(f"training had {name}, and these clips have {', '.join(content.frames) or 'none'}")
            width = content.frames[name].bags.width
            if width != len(one.mean):
                raise InputError(f"training had {name} of {len(one.mean)} features, and these clips have {width}")
        return content


def clips_of(dataset: Dataset) -> ModalitySet:
    """The content, if it is clips."""
    if not isinstance(dataset.content, ModalitySet):
        raise InputError(f"training had clips of several modalities, and these data are a {dataset.kind}")
    return dataset.content
