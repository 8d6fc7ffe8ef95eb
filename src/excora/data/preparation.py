"""From samples to what a model reads: everything is learned from the training part alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data import sources
from excora.data.dataset import Dataset, Features, Index, Spec
from excora.data.scaling import Floats, mean_and_std, standardised
from excora.data.source import Examination, Prepared
from excora.errors import InputError

__all__ = ["Examination", "Preparation"]

#: Samples whose labels are scaled at a time.
_PIECE = 4096


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Scales and codes learned from a training part; plain values, so that a run folder keeps them as JSON.

    The targets are the same for every kind of samples; ``content`` is what their source has learned.

    >>> import pandas as pd
    >>> from excora.data.table import Table
    >>> frame = pd.DataFrame({"x": [0.0, 2.0, None], "colour": ["red", "blue", "red"]})
    >>> data = Dataset(np.array(["a", "b", "c"], object), ("y",), np.array([[1.0], [3.0], [5.0]]), Table(frame))
    >>> prepared = Preparation.fit(data, np.arange(3))
    >>> {name: part.tolist() for name, part in prepared.features(data).read(np.array([1, 2])).items()}
    {'numeric': [[1.0], [0.0]], 'missing': [[False], [True]], 'codes': [[2], [1]]}
    >>> prepared.unscale(prepared.scale(data.target))[:, 0].round(6).tolist()
    [1.0, 3.0, 5.0]
    """

    kind: str  #: the source of the samples
    targets: tuple[str, ...]
    mean: tuple[float, ...]  #: of each target, over its known labels
    std: tuple[float, ...]
    content: Prepared

    @classmethod
    def fit(cls, dataset: Dataset, index: Index, **options: Any) -> Preparation:
        """Learn from the samples of ``index``; ``options`` are those of the source's ``prepare``.

        A target that is unknown or constant there is an InputError, and so is what the source cannot learn from.
        """
        if dataset.target is None or not len(index):
            raise InputError("a preparation is learned from labelled samples, got none")
        source = sources[dataset.kind]
        known = [name for name in inspect.signature(source.prepare).parameters if name not in ("dataset", "index")]
        unknown = [name for name in options if name not in known]
        if unknown:
            have = ", ".join(known) or "none"
            raise InputError(f"the source {source.kind!r} has no option {unknown[0]!r}; it has {have}")
        scales = [_scale_of(name, dataset.target[index, k]) for k, name in enumerate(dataset.targets)]
        mean, std = zip(*scales, strict=True)
        content = source.prepare(dataset, index, **options)
        return cls(kind=source.kind, targets=dataset.targets, mean=mean, std=std, content=content)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of it."""
        return self.content.notes

    @property
    def spec(self) -> Spec:
        """What a network has to read and predict."""
        return self.content.spec(len(self.targets))

    @property
    def element_names(self) -> list[str] | None:
        """Names of what a model weighs in a sample: the columns of a table; None for elements without names."""
        return self.content.element_names

    def features(self, dataset: Dataset) -> Features:
        """The features of samples of the same kind; what does not fit is a DataError with a line a column."""
        return self.content.features(dataset)

    def known_labels(self, dataset: Dataset) -> Floats | None:
        """The targets of training as these data have them, (n, targets); None where they have none."""
        found = self.content.known_labels(dataset)
        return None if found is dataset.target and dataset.targets != self.targets else found

    def scale(self, target: Floats) -> NDArray[np.float32]:
        """(target - mean) / std, (n, targets); NaN where unknown."""
        found = np.empty(np.shape(target), np.float32)
        for start in range(0, len(found), _PIECE):  # thousands of samples have thousands of genes
            rows = slice(start, start + _PIECE)
            found[rows] = standardised(np.asarray(target[rows], np.float64), self.mean, self.std)
        return found

    def unscale(self, prediction: NDArray[Any]) -> Floats:
        """prediction * std + mean, (n, targets)."""
        return np.asarray(prediction, np.float64) * self.std + self.mean

    def matrix(self, dataset: Dataset) -> Floats:
        """One row of plain numbers a sample, (n, p), columns as :attr:`matrix_names`; no NaN.

        A table: standardised numbers (0 where missing), a flag for each number that training had gaps in, and a 0/1
        column a category. Bags: mean, standard deviation, minimum and maximum of each standardised feature over the
        elements, and the logarithm of their number.
        """
        return self.content.matrix(dataset)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""
        return self.content.matrix_names

    def examine(self, dataset: Dataset, index: Index | None = None) -> Examination:
        """What training has not prepared for, in the samples of ``index`` (all unless given).

        A number is far outside if it lies beyond the training minimum or maximum by more than half the training
        range; a feature of a bag, if one of its elements does. Bags are read to find out.
        """
        places = np.arange(len(dataset)) if index is None else np.asarray(index, np.intp)
        return self.content.examine(dataset, places)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind, "targets": self.targets, "mean": self.mean, "std": self.std,
            "content": self.content.to_dict(),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Preparation:
        """What :meth:`to_dict` gave, also after a way through JSON, and what version 0.1 wrote.

        Anything else is an InputError.
        """
        with _refused():
            values = values if "kind" in values else _from_flat(values)
            kind, targets = str(values["kind"]), tuple(map(str, values["targets"]))
            mean, std = (tuple(map(float, values[name])) for name in ("mean", "std"))
            if not 1 <= len(targets) == len(mean) == len(std):
                raise ValueError("each target has a mean and a std")
            if not np.isfinite([mean, std]).all() or min(std) <= 0:
                raise ValueError("means and deviations of targets are finite, and deviations above 0")
        source = sources[kind]
        with _refused():
            return cls(kind=kind, targets=targets, mean=mean, std=std, content=source.load(values["content"]))


@contextmanager
def _refused() -> Iterator[None]:
    """Whatever is wrong with values from a file as one InputError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is not a preparation that Excora wrote: {type(error).__name__} {error}") from None


def _scale_of(name: str, labels: Floats) -> tuple[float, float]:
    """Mean and deviation of the known labels of a target."""
    known = labels[~np.isnan(labels)]
    if not len(known):
        raise InputError(f"the target {name!r} is unknown throughout the training part: nothing to learn")
    mean, std = mean_and_std(known)
    if not std:
        where = "throughout the training part" if len(known) == len(labels) else "wherever the training part knows it"
        raise InputError(f"the target {name!r} is {mean:g} {where}: nothing to learn")
    return mean, std


def _from_flat(values: dict[str, Any]) -> dict[str, Any]:
    """The layout of version 0.1, which had the parts of tables and bags side by side."""
    if values["elements"] is None:
        return values | {"kind": "table", "content": {"columns": values["columns"], "left_out": values["left_out"]}}
    content = {"statistics": values["elements"], "names": values.get("names", ())}
    return values | {"kind": "bags", "content": content}
