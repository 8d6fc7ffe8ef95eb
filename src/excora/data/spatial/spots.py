"""Spots on their way to a network: their vectors, those of their neighbours, and windows of the picture."""

from __future__ import annotations

import copy
import functools

import numpy as np
import torch
from numpy.typing import NDArray

from excora.data.bags.statistics import ElementStatistics
from excora.data.bags.stores import Bags
from excora.data.dataset import Index, Inputs
from excora.data.scaling import CLIP
from excora.data.spatial.content import Floats, SpatialSet
from excora.data.spatial.vectors import runs
from excora.errors import InputError
from excora.ragged import Ragged


class SpotBags(Bags):
    """The vectors of spots as bags: the own ones, then those of the nearest spots of the slide, nearest first."""

    def __init__(self, content: SpatialSet, *, grid: bool, neighbours: int = 0) -> None:
        self.content, self.grid, self.neighbours = content, grid, neighbours
        lacking = [slide.name for number, _ in content.where() if (slide := content.slides[number]).vectors is None]
        if lacking:
            raise InputError(
                f"slide {lacking[0]!r} has neither an image nor patch features: give features= (a folder with an .h5 a "
                "slide), or the image"
            )
        widths = {slide.name: slide.vectors.width for slide in content.slides if slide.vectors is not None}
        if len(set(widths.values())) > 1:
            pairs = ", ".join(f"{name} {width}" for name, width in list(widths.items())[:4])
            raise InputError(f"patch features of all slides must have one width, got {pairs}: of two encoders?")
        self.width = next(iter(widths.values()))
        self.own = np.empty(len(content), np.intp)
        around = np.empty(len(content), np.intp)
        for number, here in content.where():
            slide = content.slides[number]
            assert slide.vectors is not None
            self.own[here] = slide.vectors.sizes(grid=grid)[content.spot_of[here]]
            around[here] = min(neighbours, len(slide) - 1)
        self.near = {
            number: content.slides[number].nearest(np.arange(len(content.slides[number])), neighbours)
            for number, _ in content.where()
        }
        self.lengths = self.own + around

    def read(self, index: int) -> NDArray[np.float32]:
        """Of one spot."""
        return self.gather(np.array([index]))

    def gather(self, index: Index) -> NDArray[np.float32]:
        """Some spots end to end, slide by slide inside."""
        index = np.asarray(index, np.intp)
        stops = self.lengths[index].cumsum()
        found = np.empty((int(stops[-1]), self.width), np.float32)
        slide_of = self.content.slide_of[index]
        for number in np.unique(slide_of):
            slide = self.content.slides[number]
            assert slide.vectors is not None
            here = np.flatnonzero(slide_of == number)
            spots = self.content.spot_of[index[here]]
            own, sizes = slide.vectors.take(spots, grid=self.grid)
            starts = stops[here] - self.lengths[index[here]]
            found[runs(starts, sizes)] = own
            near = self.near[int(number)][spots]
            if near.size:
                unique, back = np.unique(near, return_inverse=True)
                vectors = slide.vectors.mean(unique)[back.reshape(-1)]
                found[runs(starts + sizes, np.full(len(here), near.shape[1]))] = vectors
        return found

    def offsets(self, index: Index) -> NDArray[np.float32]:
        """(total, 2) where the vectors of some spots lie, from the centre of their spot, in pitches."""
        return np.concatenate([self._offsets(int(k)) for k in index]) if len(index) else np.empty((0, 2), np.float32)

    def positions(self, index: int) -> Floats:
        """(elements, 2) in pixels of full resolution."""
        slide = self.content.slides[self.content.slide_of[index]]
        return self._offsets(index) * slide.pitch + slide.coords[self.content.spot_of[index]]

    def _offsets(self, index: int) -> NDArray[np.float32]:
        slide, spot = self.content.slides[self.content.slide_of[index]], int(self.content.spot_of[index])
        vectors, centre = slide.vectors, slide.coords[spot]
        assert vectors is not None
        rows = slice(int(vectors.starts[spot]), int(vectors.starts[spot + 1]))
        count = rows.stop - rows.start
        base = np.zeros((count, 2)) if vectors.places is None else (vectors.places[rows] - centre) / slide.pitch
        patches = int(self.own[index]) // max(count, 1)
        inner = _grid(patches)
        parts = [(base[:, None] + inner).reshape(-1, 2)]
        near = self.near[int(self.content.slide_of[index])][spot]
        parts.append((slide.coords[near] - centre) / slide.pitch)
        return np.concatenate(parts).astype(np.float32)


@functools.cache
def _grid(patches: int) -> Floats:
    """(patches, 2) centres of the parts of a square window of one pitch, row by row; the middle if it is no square."""
    side = round(patches**0.5)
    if side * side != patches:
        return np.zeros((patches, 2))
    line = (np.arange(side) + 0.5) / side - 0.5
    return np.stack([np.tile(line, side), np.repeat(line, side)], 1)


class Scale:
    """(x - mean) / std, feature by feature, at most :data:`excora.data.scaling.CLIP`; in place."""

    def __init__(self, statistics: ElementStatistics) -> None:
        self.mean = np.array(statistics.mean, np.float32)
        self.factor = np.minimum(1 / np.array(statistics.std), 1e30).astype(np.float32)

    def __call__(self, values: NDArray[np.float32]) -> torch.Tensor:
        """Changes ``values`` (n, d)."""
        with np.errstate(over="ignore"):
            values -= self.mean
            values *= self.factor
        return torch.from_numpy(np.clip(values, -CLIP, CLIP, out=values))


class SpotFeatures:
    """What batches of spots are read from; see docs/spatial.md for what is in one."""

    def __init__(
        self,
        content: SpatialSet,
        bags: SpotBags | None,
        scale: ElementStatistics | None,
        own: ElementStatistics | None,
        *,
        window: int = 0,
        field: float = 0.0,
    ) -> None:
        self.content, self.bags, self.window, self.field = content, bags, window, field
        self.scale, self.own = (None if one is None else Scale(one) for one in (scale, own))
        self.sizes: Index = np.ones(len(content), np.intp) if bags is None else np.asarray(bags.lengths, np.intp)
        pitch = np.array([slide.pitch for slide in content.slides])[content.slide_of]
        self._position = (content.coords / pitch[:, None]).astype(np.float32)

    def read(self, index: Index) -> Inputs:
        """The spots of ``index``."""
        found: Inputs = {}
        if self.bags is not None and self.scale is not None:
            found |= self._elements(self.bags, self.scale, index)
        if self.own is not None:
            found["feature"] = self.own(vectors_of(self.content, index))
        if self.window:
            found["window"] = self._windows(index)
        found["position"] = torch.from_numpy(self._position[index])
        found["slide"] = torch.from_numpy(self.content.keys[index])
        return found

    def light(self) -> SpotFeatures:
        """The same without elements and pictures: the own vectors alone."""
        found = copy.copy(self)
        found.bags, found.window = None, 0
        return found

    def positions(self, sample: int, pool: str, elements: int) -> Floats | None:
        """Where the elements that a ``pool`` of this name weighs lie, (elements, 2) in pixels; None where nobody knows.

        "patches" are the spot's own, or the parts of its window; "neighbours" the spots around it.
        """
        slide = self.content.slides[self.content.slide_of[sample]]
        if self.bags is not None and pool in ("patches", "neighbours"):
            where, own = self.bags.positions(sample), int(self.bags.own[sample])
            return where[:own] if pool == "patches" else where[own:]
        if self.window and pool == "patches":
            centre = slide.coords[self.content.spot_of[sample]]
            return np.asarray(_grid(elements) * (self.field or slide.pitch) + centre)
        return None

    def _elements(self, bags: SpotBags, scale: Scale, index: Index) -> Inputs:
        sizes, parts = self.sizes[index], {"elements": scale(bags.gather(index))}
        parts["places"] = torch.from_numpy(bags.offsets(index))
        own = {"own": torch.from_numpy(bags.own[index].astype(np.int64))}
        if (sizes == sizes[0]).all():
            return {**{name: x.view(len(sizes), int(sizes[0]), x.shape[1]) for name, x in parts.items()}, **own}
        return {**{name: Ragged(x, torch.from_numpy(sizes)) for name, x in parts.items()}, **own}

    def _windows(self, index: Index) -> torch.Tensor:
        """(n, 3, window, window), (x / 255 - 0.5) / 0.5."""
        found = np.empty((len(index), self.window, self.window, 3), np.uint8)
        for k, place in enumerate(index):
            slide = self.content.slides[self.content.slide_of[place]]
            if slide.picture is None:
                raise InputError(f"slide {slide.name!r} has no image, and this model reads windows of it")
            x, y = slide.coords[self.content.spot_of[place]]
            found[k] = slide.picture.window(x, y, self.field or slide.pitch, self.window)
        return torch.from_numpy(found).permute(0, 3, 1, 2).float().div_(255.0).sub_(0.5).div_(0.5).contiguous()


def vectors_of(content: SpatialSet, index: Index) -> NDArray[np.float32]:
    """(n, d) one vector a spot, as it is stored."""
    parts, order = [], []
    for number in np.unique(content.slide_of[index]):
        here = np.flatnonzero(content.slide_of[index] == number)
        vectors = content.slides[number].vectors
        if vectors is None:
            raise InputError(f"slide {content.slides[number].name!r} has neither an image nor patch features")
        parts.append(vectors.mean(content.spot_of[index[here]]))
        order.append(here)
    found = np.empty((len(index), parts[0].shape[1]), np.float32)
    for here, part in zip(order, parts, strict=True):
        found[here] = part
    return found
