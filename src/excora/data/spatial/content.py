"""Spots as samples: the slides they lie on, what a network reads of them, and prepared."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.data.dataset import Index, Inputs, Spec
from excora.data.spatial.genes import Expression
from excora.data.spatial.slide import Slide
from excora.errors import InputError
from excora.functional import at_least_float32, safe_sqrt
from excora.ragged import Ragged

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpatialSet:
    """Spots: ``spot_of[i]`` on slide ``slide_of[i]`` is sample i."""

    kind: ClassVar[str] = "spatial"
    slides: tuple[Slide, ...]
    slide_of: Index  #: (n,)
    spot_of: Index  #: (n,)
    blocks: NDArray[np.object_] | None = None  #: (n,) of a single slide, what is kept apart in it
    genes: str | None = None  #: how genes are chosen, where nobody has named them
    expression: Expression | None = None  #: the genes that are predicted, once they are known
    scale: str = "log1p"

    def __len__(self) -> int:
        return len(self.slide_of)

    def take(self, index: Index) -> SpatialSet:
        """The spots of ``index``, in that order; the slides stay whole."""
        blocks = None if self.blocks is None else self.blocks[index]
        return replace(self, slide_of=self.slide_of[index], spot_of=self.spot_of[index], blocks=blocks)

    def mark(self, found: Any) -> None:
        """Names, places, pictures and counts of the spots."""
        for number in np.unique(self.slide_of):
            slide, spots = self.slides[number], self.spot_of[self.slide_of == number]
            found.update(f"{slide.name} {slide.key}".encode())
            found.update(np.ascontiguousarray(slide.coords[spots]).tobytes())
            if slide.counts is not None:
                found.update(np.ascontiguousarray(slide.totals[spots]).tobytes())
        found.update(self.spot_of.tobytes())

    @functools.cached_property
    def coords(self) -> Floats:
        """(n, 2) centres in pixels of full resolution."""
        return np.stack([self.slides[s].coords[k] for s, k in zip(self.slide_of, self.spot_of, strict=True)])

    @functools.cached_property
    def slide_names(self) -> NDArray[np.object_]:
        """(n,)."""
        return np.array([slide.name for slide in self.slides], object)[self.slide_of]

    @functools.cached_property
    def keys(self) -> NDArray[np.int64]:
        """(n,) a number for what a spot shares its picture with: the slide, or a block of a single slide."""
        whole = np.array([_number(slide.key) for slide in self.slides], np.int64)[self.slide_of]
        if self.blocks is None:
            return whole
        words = {word: _number(_hash(str(word))) for word in sorted(set(self.blocks))}
        return whole ^ np.array([words[word] for word in self.blocks], np.int64)

    def labels(self, expression: Expression) -> Floats:
        """(n, genes) on that scale, NaN where unknown."""
        return expression.of(self.slides, self.slide_of, self.spot_of)

    def where(self) -> list[tuple[int, Index]]:
        """The samples of each slide that has any: its number, and their places."""
        return [(int(number), np.flatnonzero(self.slide_of == number)) for number in np.unique(self.slide_of)]


def _hash(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def _number(key: str) -> int:
    """The first 63 bits of a hash."""
    return int(key[:16], 16) >> 1


@dataclass(frozen=True, kw_only=True)
class SpatialSpec(Spec):
    """What a network reads of spots; see :class:`excora.data.spatial.SpatialSource`."""

    kind: ClassVar[str] = "spatial"
    width: int = 0  #: of a vector; 0: none is read
    elements: str = "grid"  #: "grid", "features", "none"
    neighbours: int = 0
    window: int = 0  #: side of the picture; 0: none is read
    feature: bool = False  #: whether the spot's own vector comes along
    channels: ClassVar[int] = 3

    @property
    def summary(self) -> int:
        """The mean of the own vectors, and of the neighbours; of a picture the mean and spread of its colours."""
        if self.elements != "none":
            return self.width * (2 if self.neighbours else 1)
        return self.width if self.feature else 2 * self.channels

    def summarise(self, inputs: Inputs) -> Tensor:
        """(n, summary)."""
        if self.elements != "none":
            return self._means(inputs)
        if self.feature:
            return at_least_float32(_tensor(inputs, "feature"))
        window = at_least_float32(_tensor(inputs, "window")).flatten(2)
        mean = window.mean(2)
        return torch.cat([mean, safe_sqrt((window - mean.unsqueeze(2)).square().mean(2))], 1)

    def _means(self, inputs: Inputs) -> Tensor:
        elements, own = inputs["elements"], _tensor(inputs, "own")
        if isinstance(elements, Tensor):
            elements = Ragged(elements.flatten(0, 1), torch.full((len(elements),), elements.shape[1]))
        values, bag = at_least_float32(elements.values), elements.bag_index()
        lengths = elements.lengths.to(values.device)
        place = torch.arange(len(values), device=values.device) - (lengths.cumsum(0) - lengths)[bag]
        mine = place < own.to(values.device)[bag]
        parts = []
        for part in (mine, ~mine) if self.neighbours else (mine,):
            total = values.new_zeros(len(lengths), values.shape[1]).index_add(0, bag[part], values[part])
            count = torch.zeros_like(lengths).index_add(0, bag[part], torch.ones_like(bag[part], dtype=lengths.dtype))
            parts.append(total / count.clamp_min(1).unsqueeze(1))
        return torch.cat(parts, 1)


def _tensor(inputs: Inputs, name: str) -> Tensor:
    found = inputs[name]
    if not isinstance(found, Tensor):
        raise InputError(f"{name} of spots is one tensor, got a ragged one")
    return found
