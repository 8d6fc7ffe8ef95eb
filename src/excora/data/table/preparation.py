"""A table on its way to a model: numbers on one scale, categories as codes, as the training part taught them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Index
from excora.data.dates import ISO
from excora.data.scaling import CLIP, Floats, far_outside
from excora.data.source import Examination, Plain, Prepared
from excora.data.table.columns import Column, Number, learn
from excora.data.table.content import Table, TableFeatures, TableSpec
from excora.errors import DataError, InputError


@dataclass(frozen=True)
class PreparedTable(Prepared):
    """The columns that training has seen, found again by their names."""

    columns: tuple[Column, ...]
    left_out: dict[str, str] = field(default_factory=dict)  #: columns that are not used, and why

    @classmethod
    def learn(cls, dataset: Dataset, index: Index, scaling: str) -> PreparedTable:
        """From the rows of ``index``; a table without a usable column is a DataError."""
        found = _table(dataset).columns
        learned = {name: learn(name, column, index, scaling) for name, column in found.items()}
        left_out = {name: why for name, why in learned.items() if isinstance(why, str)}
        columns = tuple(column for column in learned.values() if isinstance(column, Column))
        if not columns:
            reasons = [f"column {name!r} is left out: {why}" for name, why in left_out.items()]
            raise DataError(["there is no column left to predict from", *reasons])
        return cls(columns, left_out)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PreparedTable:
        """What :meth:`to_dict` gave."""
        left_out = {str(name): str(why) for name, why in values["left_out"].items()}
        columns = tuple(Column.from_dict(column) for column in values["columns"])
        if not columns:
            raise ValueError("a table has at least one column")
        return cls(columns, left_out)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = asdict(self)
        for column in found["columns"]:
            if column["form"] == ISO:
                del column["form"]
            if not column["counts"]:
                del column["counts"]
        return found

    @property
    def numbers(self) -> list[Number]:
        """The numeric features, in their order."""
        return [number for column in self.columns for number in column.numbers]

    @property
    def labels(self) -> list[str]:
        """Names of the numeric features."""
        return [label for column in self.columns for label in column.labels]

    @property
    def _categorical(self) -> list[Column]:
        return [column for column in self.columns if column.kind == "category"]

    def drawn(self, times: int) -> NDArray[np.int64]:
        """Codes (times, categorical) as often as training had them, drawn alike for every row; without counts evenly.

        Columns are independent of each other, and of each the shares are exact to 1 / times.
        """
        rng, found = np.random.default_rng(0), [np.zeros((times, 0), np.int64)]
        for column in self._categorical:
            counts = np.array(column.counts or [1] * len(column.categories), float)
            place = (np.arange(times) + 0.5) / times * counts.sum()
            found.append(rng.permutation(np.searchsorted(counts.cumsum(), place) + 1)[:, None])
        return np.concatenate(found, 1)

    @property
    def notes(self) -> tuple[str, ...]:
        """The columns that are left out."""
        return tuple(f"column {name!r} is left out: {why}" for name, why in self.left_out.items())

    @property
    def element_names(self) -> list[str]:
        """The numeric features, then the categorical columns."""
        return [*self.labels, *(column.name for column in self._categorical)]

    def spec(self, targets: int) -> TableSpec:
        """How many numbers, and how many codes of each category."""
        categories = tuple(len(column.categories) + 1 for column in self._categorical)
        return TableSpec(targets=targets, numeric=len(self.numbers), categories=categories)

    def features(self, dataset: Dataset) -> TableFeatures:
        """The rows, standardised; what does not fit is a DataError with a line a column."""
        raw, codes = self._raw(dataset)
        numeric, missing = self._standardised(raw)
        return TableFeatures(numeric.astype(np.float32), missing, codes)

    def matrix(self, dataset: Dataset) -> Floats:
        """Standardised numbers, 0 where missing; a flag for each that training had gaps in; a 0/1 column a category."""
        raw, codes = self._raw(dataset)
        numeric, missing = self._standardised(raw)
        gaps = np.array([number.gaps for number in self.numbers], bool)
        hot = [codes[:, k, None] == np.arange(1, n) for k, n in enumerate(self.spec(1).categories)]
        return np.concatenate([numeric, missing[:, gaps], *hot], 1, dtype=np.float64)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""
        gaps = [f"{label} is missing" for label, n in zip(self.labels, self.numbers, strict=True) if n.gaps]
        hot = [f"{column.name} = {category}" for column in self.columns for category in column.categories]
        return (*self.labels, *gaps, *hot)

    def plain(self, dataset: Dataset) -> Plain:
        """The cells as they are; dates have no name."""
        raw, codes = self._raw(dataset)
        names = [column.name if column.kind == "number" else None for column in self.columns for _ in column.numbers]
        return Plain(raw, tuple(names), codes, tuple(column.name for column in self._categorical))

    def examine(self, dataset: Dataset, index: Index) -> Examination:
        """A number is far outside if it lies beyond the training range by more than half of it."""
        raw, codes = self._raw(dataset)
        raw, codes = raw[index], codes[index]
        names = [column.name for column in self._categorical]
        unseen = {name: int(count) for name, count in zip(names, (codes == 0).sum(0), strict=True) if count}
        outside = far_outside(raw, [n.low for n in self.numbers], [n.high for n in self.numbers]).sum(1)
        known = {column.name for column in self.columns} | set(self.left_out)
        table = _table(dataset)
        extra = (table.columns.keys() | table.unusable.keys()) - known
        notes = [f"column {name!r} is ignored: training has not seen it" for name in extra]
        notes += [f"column {name!r}: {count} cells have a category new to the model" for name, count in unseen.items()]
        return Examination(unseen, outside, tuple(sorted(notes)))

    def _raw(self, dataset: Dataset) -> tuple[Floats, NDArray[np.int64]]:
        """Numbers (n, numeric), NaN where missing, and codes (n, categorical)."""
        table, problems = _table(dataset), []
        have = table.columns
        numeric, codes = [np.empty((len(dataset), 0))], [np.empty((len(dataset), 0), np.int64)]
        for column in self.columns:
            if column.name not in have:
                absent = f"column {column.name!r} is missing: training had it"
                problems.append(table.unusable.get(column.name, absent))
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
        for place, number in enumerate(self.numbers):
            scaled[:, place] = number.scale(raw[:, place])
        return np.where(missing, 0.0, np.clip(scaled, -CLIP, CLIP)), missing


def _table(dataset: Dataset) -> Table:
    if not isinstance(dataset.content, Table):
        raise InputError(f"training had a table, and these data are {dataset.kind}")
    return dataset.content
