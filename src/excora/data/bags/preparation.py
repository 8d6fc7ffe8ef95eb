"""Bags on their way to a model: the features of their elements on one scale, and found again by their names."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from excora.data.bags.content import BagFeatures, BagSet, BagSpec, ElementTable
from excora.data.bags.statistics import ElementStatistics, summaries
from excora.data.bags.stores import ArrayBags, Bags, PickedBags
from excora.data.dataset import Dataset, Index
from excora.data.scaling import Floats
from excora.data.source import Examination, Plain, Prepared
from excora.data.table.preparation import PreparedTable
from excora.errors import DataError, InputError

#: Numbers in all bags up to which they are read once more, to look for what gives the label away.
QUICK = 20_000_000


@dataclass(frozen=True)
class PreparedBags(Prepared):
    """The features that the elements of training had."""

    statistics: ElementStatistics
    names: tuple[str, ...] = ()  #: of the features, if they have names
    columns: PreparedTable | None = None  #: of a long table with gaps, categories or dates: what its cells become
    time: str | None = None  #: the feature that is the time of an element

    @classmethod
    def learn(cls, dataset: Dataset, index: Index) -> PreparedBags:
        """From the bags of ``index``."""
        found = _bag_set(dataset)
        if found.table is None:
            return cls(ElementStatistics.learn(found.bags, index), found.names, time=found.time)
        columns = PreparedTable.learn(found.table.rows(), found.table.places(index), "standard")
        bags = _encoded(found.table, columns)
        time = found.time if found.time in columns.matrix_names else None  # a time that never changes is left out
        return cls(ElementStatistics.learn(bags, index), columns.matrix_names, columns, time)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PreparedBags:
        """What :meth:`to_dict` gave."""
        statistics, names = ElementStatistics.from_dict(values["statistics"]), tuple(map(str, values["names"]))
        if names and len(names) != len(statistics.mean):
            raise ValueError("each feature has a name, or none has")
        columns = values.get("columns")
        time = values.get("time")
        if time is not None and time not in names:
            raise ValueError("the time is one of the features")
        return cls(statistics, names, None if columns is None else PreparedTable.from_dict(columns), time)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def width(self) -> int:
        """How many features an element has."""
        return len(self.statistics.mean)

    @property
    def notes(self) -> tuple[str, ...]:
        """Whether features never change, and columns that are left out."""
        constant, left = self.statistics.constant, () if self.columns is None else self.columns.notes
        same = (f"{constant} of {self.width} features never change in training",) if constant else ()
        return (*same, *left)

    def spec(self, targets: int) -> BagSpec:
        """The width of the elements, and where their time stands."""
        time = None if self.time is None else self.names.index(self.time)
        return BagSpec(targets=targets, width=self.width, time=time)

    def features(self, dataset: Dataset) -> BagFeatures:
        """The bags, standardised as they are read."""
        return BagFeatures(self._bags(dataset), self.statistics)

    def matrix(self, dataset: Dataset) -> Floats:
        """Mean, deviation, minimum and maximum of each standardised feature over a bag, and the log of its size."""
        return self.statistics.standardised(summaries(self._bags(dataset)))

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""
        names = self.names or range(self.width)
        return (*(f"{what} of {name}" for what in ("mean", "std", "min", "max") for name in names), "log size")

    def plain(self, dataset: Dataset) -> Plain | None:
        """Summaries of the bags; only a feature that never changes within a bag has a name. None if it takes long."""
        bags = self._bags(dataset)
        if bags.lengths.sum() * bags.width > QUICK:
            return None
        found = summaries(bags)
        low, high = found[:, 2 * self.width : 3 * self.width], found[:, 3 * self.width : 4 * self.width]
        same, names = (low == high).all(0), self.names or tuple(map(str, range(self.width)))
        shown = [name if fixed else None for name, fixed in zip(names, same, strict=True)]
        rest = (None,) * (found.shape[1] - self.width)
        noun = "column" if self.names and self.columns is None else "feature"
        return Plain(found, (*shown, *rest), np.empty((len(found), 0), np.int64), (), noun)

    def examine(self, dataset: Dataset, index: Index) -> Examination:
        """A feature of a bag is far outside if one of its elements is; bags are read to find out."""
        found = _bag_set(dataset)
        if self.columns is not None:
            table = _table(found).take(index)
            rows = table.rows()
            examined = self.columns.examine(rows, np.arange(len(rows)))
            bag = np.repeat(np.arange(len(index)), table.lengths)
            outside = np.bincount(bag, examined.outside > 0, minlength=len(index)).astype(np.int64)
            return examined._replace(outside=outside)
        extra = [name for name in (*found.names, *found.unusable) if self.names and name not in self.names]
        ignored = tuple(f"column {name!r} is ignored: training has not seen it" for name in sorted(extra))
        return Examination({}, self.statistics.outside(self._bags(dataset), index), ignored)

    def _bags(self, dataset: Dataset) -> Bags:
        """The bags with the features of training, in their order there."""
        found = _bag_set(dataset)
        if not found.bags.lengths.all():
            raise InputError(f"bag {dataset.ids[int(found.bags.lengths.argmin())]!r} is empty: leave it out")
        if self.columns is not None:
            return _encoded(_table(found), self.columns)
        if self.names and (found.names or found.table) and self.names != found.names:
            absent = [name for name in self.names if name not in found.names]
            if absent:
                why = {name: f"column {name!r} is missing: training had it" for name in absent} | found.unusable
                raise DataError([why[name] for name in absent])
            return PickedBags(found.bags, [found.names.index(name) for name in self.names])
        if found.bags.width != self.width:
            raise InputError(f"elements had {self.width} features in training and have {found.bags.width} now")
        return found.bags


def _encoded(table: ElementTable, columns: PreparedTable) -> ArrayBags:
    """The elements as numbers: standardised, 0 where missing; a flag for gaps; a 0/1 feature a category."""
    return ArrayBags(columns.matrix(table.rows()).astype(np.float32), table.lengths)


def _table(found: BagSet) -> ElementTable:
    if found.table is None:
        raise InputError("training had a long table with gaps, categories or dates, and these bags are plain numbers")
    return found.table


def _bag_set(dataset: Dataset) -> BagSet:
    if not isinstance(dataset.content, BagSet):
        hint = "; name the column of the bags with bag=" if dataset.kind == "table" else ""
        raise InputError(f"training had bags, and these data are a {dataset.kind}{hint}")
    return dataset.content
