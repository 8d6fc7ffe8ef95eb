"""Spots prepared: which vectors a network reads, and their scale, from the training part alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from excora.data.bags.statistics import ElementStatistics
from excora.data.bags.stores import ArrayBags
from excora.data.dataset import Dataset, Index
from excora.data.scaling import Floats, far_outside
from excora.data.source import Examination, Prepared
from excora.data.spatial.content import SpatialSet, SpatialSpec
from excora.data.spatial.genes import Expression
from excora.data.spatial.spots import Scale, SpotBags, SpotFeatures, vectors_of
from excora.errors import InputError

ELEMENTS = ("grid", "features", "none")
#: Training spots that the statistics are taken from, and spots that are read at once.
MOST, PIECE = 2000, 1024


@dataclass(frozen=True)
class PreparedSpots(Prepared):
    """What is read of spots, and the scale of their vectors."""

    elements: str = "grid"
    neighbours: int = 0
    window: int = 0
    field: float = 0.0
    scale: ElementStatistics | None = None  #: of the elements
    own: ElementStatistics | None = None  #: of the spots' own vectors, where these are read
    expression: Expression | None = None

    @classmethod
    def learn(cls, dataset: Dataset, index: Index, **asked: Any) -> PreparedSpots:
        """From the spots of ``index``; ``asked`` as :meth:`excora.data.spatial.SpatialSource.prepare` has it."""
        content, feature = spots_of(dataset), asked.pop("feature")
        if asked["elements"] not in ELEMENTS or min(asked["neighbours"], asked["window"], asked["field"]) < 0:
            raise InputError(f"elements are {', '.join(ELEMENTS)} and the other options at least 0, got {asked}")
        if asked["elements"] == "none" and not feature and not asked["window"]:
            raise InputError("a model reads elements, the feature, or windows of spots: it asked for none of these")
        some = np.asarray(index)
        if len(some) > MOST:
            some = np.sort(np.random.default_rng(0).choice(some, MOST, replace=False))
        scale = own = None
        if asked["elements"] != "none":
            bags = SpotBags(content, grid=asked["elements"] == "grid", neighbours=asked["neighbours"])
            rows = bags.gather(some)
            scale = ElementStatistics.learn(ArrayBags(rows, [len(rows)]), np.arange(1))
        if feature:
            rows = vectors_of(content, some)
            own = ElementStatistics.learn(ArrayBags(rows, [len(rows)]), np.arange(1))
        return cls(**asked, scale=scale, own=own, expression=content.expression)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PreparedSpots:
        """What :meth:`to_dict` gave."""
        plain: dict[str, Any] = {"elements": str(values["elements"]), "field": float(values["field"])}
        plain |= {name: int(values[name]) for name in ("neighbours", "window")}
        scales: dict[str, Any] = {
            name: None if (part := values.get(name)) is None else ElementStatistics.from_dict(part)
            for name in ("scale", "own")
        }
        expression = None if (part := values.get("expression")) is None else Expression.from_dict(part)
        found = cls(**plain, **scales, expression=expression)
        if found.elements not in ELEMENTS or (found.scale is None) != (found.elements == "none"):
            raise ValueError("elements have a scale, unless none are read")
        if not np.isfinite(found.field) or min(found.field, found.neighbours, found.window) < 0:
            raise ValueError("sizes are numbers of at least 0")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def width(self) -> int:
        """Of a vector; 0 if none is read."""
        known = self.scale or self.own
        return 0 if known is None else len(known.mean)

    def spec(self, targets: int) -> SpatialSpec:
        """What a network has to read."""
        return SpatialSpec(
            targets=targets, width=self.width, elements=self.elements, neighbours=self.neighbours, window=self.window,
            feature=self.own is not None,
        )  # fmt: skip

    def features(self, dataset: Dataset) -> SpotFeatures:
        """Read from disk batch by batch."""
        content = spots_of(dataset)
        return SpotFeatures(content, self._bags(content), self.scale, self.own, window=self.window, field=self.field)

    def known_labels(self, dataset: Dataset) -> Floats | None:
        """The genes of training on its scale, where the slides have counts."""
        content = spots_of(dataset)
        if self.expression is None or all(slide.counts is None for slide in content.slides):
            return dataset.target
        found = content.labels(self.expression)
        return None if np.isnan(found).all() else found

    def matrix(self, dataset: Dataset) -> Floats:
        """The mean vector of a spot, standardised; without vectors the mean and spread of the colours of its window."""
        content = spots_of(dataset)
        if self.width:
            scale = Scale(self.own or self.scale)  # type: ignore[arg-type]
            found = np.empty((len(content), self.width))
            for piece in _pieces(len(content)):
                found[piece] = scale(vectors_of(content, piece)).numpy()
            return found
        spec, features = self.spec(1), self.features(dataset)
        return np.concatenate(
            [spec.summarise(features.read(piece)).double().numpy() for piece in _pieces(len(content))]
        )

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""
        if self.width:
            return tuple(f"feature {k}" for k in range(self.width))
        return tuple(f"{what} of {colour}" for what in ("mean", "std") for colour in ("red", "green", "blue"))

    def examine(self, dataset: Dataset, index: Index) -> Examination:
        """How many features of a spot lie far outside the training range."""
        content = spots_of(dataset)
        outside = np.zeros(len(index), np.int64)
        if self.own is not None or self.scale is not None:
            known = self.own or self.scale
            assert known is not None
            for piece in _pieces(len(index)):
                rows = vectors_of(content, index[piece]).astype(np.float64)
                outside[piece] = far_outside(rows, known.low, known.high).sum(1)
        return Examination({}, outside, ())

    def _bags(self, content: SpatialSet) -> SpotBags | None:
        if self.elements == "none":
            return None
        found = SpotBags(content, grid=self.elements == "grid", neighbours=self.neighbours)
        if found.width != self.width:
            raise InputError(
                f"vectors had {self.width} features in training and have {found.width} now: of one encoder?"
            )
        return found


def _pieces(n: int) -> list[Index]:
    return [np.arange(start, min(start + PIECE, n)) for start in range(0, n, PIECE)]


def spots_of(dataset: Dataset) -> SpatialSet:
    """The content, if it is of spots."""
    if not isinstance(dataset.content, SpatialSet):
        raise InputError(f"training had spots of slides, and these data are {dataset.kind}: give slides")
    return dataset.content
