"""From samples to what a model reads: everything is learned from the training part alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.bags import PickedBags
from excora.data.columns import Column, Number, learn, mean_and_std
from excora.data.dataset import Bags, Dataset, Features, Index, Inputs
from excora.data.elements import Elements, far_outside, summaries
from excora.data.features import CLIP, BagFeatures, TableFeatures
from excora.errors import DataError, InputError

Floats = NDArray[np.float64]


class Examination(NamedTuple):
    """How data differ from those of training."""

    unseen: dict[str, int]  #: column: cells whose category training has not seen, or among its rarest
    outside: NDArray[np.int64]  #: (n,) inputs far outside the training range
    notes: tuple[str, ...]  #: the same in words, and columns that are ignored


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Scales and codes learned from a training part; plain values, so that a run folder keeps them as JSON.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [0.0, 2.0, None], "colour": ["red", "blue", "red"]})
    >>> data = Dataset(np.array(["a", "b", "c"], object), ("y",), np.array([[1.0], [3.0], [5.0]]), frame=frame)
    >>> prepared = Preparation.fit(data, np.arange(3))
    >>> rows = prepared.features(data).read(np.array([1, 2]))
    >>> rows.numeric.tolist(), rows.missing.tolist(), rows.codes.tolist()
    ([[1.0], [0.0]], [[False], [True]], [[2], [1]])
    >>> prepared.unscale(prepared.scale(data.target))[:, 0].round(6).tolist()
    [1.0, 3.0, 5.0]
    """

    targets: tuple[str, ...]
    mean: tuple[float, ...]  #: of each target
    std: tuple[float, ...]
    columns: tuple[Column, ...] = ()  #: of a table
    left_out: dict[str, str] = field(default_factory=dict)  #: columns of a table that are not used, and why
    elements: Elements | None = None  #: of bags
    names: tuple[str, ...] = ()  #: of the features of an element, if they have names

    @classmethod
    def fit(cls, dataset: Dataset, index: Index, *, scaling: str = "standard") -> Preparation:
        """Learn from the samples of ``index``; ``scaling`` of a table's numbers: "standard" or "quantile".

        A target that is constant there, or a table without a usable column, is an InputError.
        """
        if scaling not in ("standard", "quantile") or (scaling == "quantile" and dataset.kind == "bags"):
            raise InputError(f"scaling must be standard, or for tables quantile, got {scaling!r} for {dataset.kind}")
        if dataset.target is None or not len(index):
            raise InputError("a preparation is learned from labelled samples, got none")
        scales = [mean_and_std(values) for values in dataset.target[index].T]
        for name, (mean, std) in zip(dataset.targets, scales, strict=True):
            if not std:
                raise InputError(f"the target {name!r} is {mean:g} throughout the training part: nothing to learn")
        means, stds = zip(*scales, strict=True)
        if dataset.bags is not None:
            elements = Elements.learn(dataset.bags, index)
            return cls(targets=dataset.targets, mean=means, std=stds, elements=elements, names=dataset.features)
        learned = {name: learn(name, column, index, scaling) for name, column in _columns(dataset).items()}
        columns = tuple(column for column in learned.values() if isinstance(column, Column))
        left_out = {name: why for name, why in learned.items() if isinstance(why, str)}
        if not columns:
            reasons = [f"column {name!r} is left out: {why}" for name, why in left_out.items()]
            raise DataError(["there is no column left to predict from", *reasons])
        return cls(targets=dataset.targets, mean=means, std=stds, columns=columns, left_out=left_out)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of it."""
        found = [f"column {name!r} is left out: {why}" for name, why in self.left_out.items()]
        if self.elements is not None and self.elements.constant:
            found.append(f"{self.elements.constant} of {len(self.elements.mean)} features never change in training")
        return tuple(found)

    @property
    def inputs(self) -> Inputs:
        """What a network has to read and predict."""
        if self.elements is not None:
            return Inputs(targets=len(self.targets), width=len(self.elements.mean))
        categories = tuple(len(column.categories) + 1 for column in self.columns if column.kind == "category")
        return Inputs(targets=len(self.targets), numeric=len(self._numbers), categories=categories)

    @property
    def _numbers(self) -> list[Number]:
        return [number for column in self.columns for number in column.numbers]

    def features(self, dataset: Dataset) -> Features:
        """The features of samples of the same kind; what does not fit is a DataError with a line a column."""
        if self.elements is not None:
            return BagFeatures(self._bags(dataset), self.elements)
        raw, codes = self._raw(dataset)
        numeric, missing = self._standardised(raw)
        return TableFeatures(numeric.astype(np.float32), missing, codes)

    def scale(self, target: Floats) -> NDArray[np.float32]:
        """(target - mean) / std, (n, targets)."""
        return _scaled(np.asarray(target, np.float64), self.mean, self.std).astype(np.float32)

    def unscale(self, prediction: NDArray[Any]) -> Floats:
        """prediction * std + mean, (n, targets)."""
        return np.asarray(prediction, np.float64) * self.std + self.mean

    def matrix(self, dataset: Dataset) -> Floats:
        """One row of plain numbers a sample, (n, p), columns as :attr:`matrix_names`; no NaN.

        A table: standardised numbers (0 where missing), a flag for each number that training had gaps in, and a 0/1
        column a category. Bags: mean, standard deviation, minimum and maximum of each standardised feature over the
        elements, and the logarithm of their number.
        """
        if self.elements is not None:
            return self.elements.standardised(summaries(self._bags(dataset)))
        raw, codes = self._raw(dataset)
        numeric, missing = self._standardised(raw)
        gaps = np.array([number.gaps for number in self._numbers], bool)
        hot = [codes[:, k, None] == np.arange(1, n) for k, n in enumerate(self.inputs.categories)]
        return np.concatenate([numeric, missing[:, gaps], *hot], 1, dtype=np.float64)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""
        if self.elements is not None:
            names = self.names or range(len(self.elements.mean))
            return (*(f"{what} of {name}" for what in ("mean", "std", "min", "max") for name in names), "log size")
        labels = [label for column in self.columns for label in column.labels]
        gaps = [f"{label} is missing" for label, n in zip(labels, self._numbers, strict=True) if n.gaps]
        hot = [f"{column.name} = {category}" for column in self.columns for category in column.categories]
        return (*labels, *gaps, *hot)

    def examine(self, dataset: Dataset, index: Index | None = None) -> Examination:
        """What training has not prepared for, in the samples of ``index`` (all unless given).

        A number is far outside if it lies beyond the training minimum or maximum by more than half the training
        range; a feature of a bag, if one of its elements does. Bags are read to find out.
        """
        places = np.arange(len(dataset)) if index is None else np.asarray(index, np.intp)
        if self.elements is not None:
            extra = [name for name in dataset.features if self.names and name not in self.names]
            ignored = tuple(f"column {name!r} is ignored: training has not seen it" for name in extra)
            return Examination({}, self.elements.outside(self._bags(dataset), places), ignored)
        raw, codes = self._raw(dataset)
        raw, codes = raw[places], codes[places]
        names = [column.name for column in self.columns if column.kind == "category"]
        unseen = {name: int(count) for name, count in zip(names, (codes == 0).sum(0), strict=True) if count}
        outside = far_outside(raw, [n.low for n in self._numbers], [n.high for n in self._numbers]).sum(1)
        known = {column.name for column in self.columns} | set(self.left_out)
        notes = [f"column {name!r} is ignored: training has not seen it" for name in _columns(dataset).keys() - known]
        notes += [f"column {name!r}: {count} cells have a category new to the model" for name, count in unseen.items()]
        return Examination(unseen, outside, tuple(sorted(notes)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Preparation:
        """What :meth:`to_dict` gave, also after a way through JSON; anything else is an InputError."""
        try:
            rows = None if values["elements"] is None else values["elements"].items()
            elements = None if rows is None else Elements(**{key: tuple(map(float, row)) for key, row in rows})
            found = cls(
                targets=tuple(map(str, values["targets"])),
                mean=tuple(map(float, values["mean"])),
                std=tuple(map(float, values["std"])),
                columns=tuple(Column.from_dict(column) for column in values["columns"]),
                left_out={str(name): str(why) for name, why in values["left_out"].items()},
                elements=elements,
            )
            if not 1 <= len(found.targets) == len(found.mean) == len(found.std):
                raise ValueError("each target has a mean and a std")
            if elements is not None and len({len(row) for row in asdict(elements).values()} | {0}) != 2:
                raise ValueError("each feature has a mean, a std, a low and a high")
            return found
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is not a preparation that Excora wrote: {type(error).__name__} {error}") from None

    def _bags(self, dataset: Dataset) -> Bags:
        assert self.elements is not None
        if dataset.bags is None:
            raise InputError("training had bags, and these data are a table; name the column of the bags with bag=")
        if not dataset.bags.lengths.all():
            raise InputError(f"bag {dataset.ids[int(dataset.bags.lengths.argmin())]!r} is empty: leave it out")
        if self.names and dataset.features and self.names != dataset.features:
            absent = [name for name in self.names if name not in dataset.features]
            if absent:
                raise DataError([f"column {name!r} is missing: training had it" for name in absent])
            return PickedBags(dataset.bags, [dataset.features.index(name) for name in self.names])
        if dataset.bags.width != len(self.elements.mean):
            raise InputError(
                f"elements had {len(self.elements.mean)} features in training and have {dataset.bags.width} now"
            )
        return dataset.bags

    def _raw(self, dataset: Dataset) -> tuple[Floats, NDArray[np.int64]]:
        """Numbers (n, numeric), NaN where missing, and codes (n, categorical)."""
        if dataset.frame is None:
            raise InputError("training had a table, and these data are bags")
        have, problems = _columns(dataset), []
        numeric, codes = [np.empty((len(dataset), 0))], [np.empty((len(dataset), 0), np.int64)]
        for column in self.columns:
            if column.name not in have:
                problems.append(f"column {column.name!r} is missing: training had it")
                continue
            try:
                if column.kind == "category":
                    codes.append(column.codes(have[column.name])[:, None])
                else:
                    numeric.append(column.values(have[column.name]))
            except ValueError as error:
                problems.append(f"column {column.name!r} has changed: it had {error}")
        if problems:
            raise DataError(problems)
        return np.concatenate(numeric, 1), np.concatenate(codes, 1)

    def _standardised(self, raw: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Standardised numbers, 0 where missing, and where they are."""
        missing = np.isnan(raw)
        scaled = np.empty_like(raw)
        for place, number in enumerate(self._numbers):
            scaled[:, place] = number.scale(raw[:, place])
        return np.where(missing, 0.0, np.clip(scaled, -CLIP, CLIP)), missing


def _scaled(values: Floats, mean: Any, std: Any) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip((values - np.asarray(mean, float)) / np.asarray(std, float), -CLIP, CLIP)


def _columns(dataset: Dataset) -> dict[str, Any]:
    assert dataset.frame is not None
    return {str(name): dataset.frame[name] for name in dataset.frame.columns}
