"""What the readers hand on: samples with labels and roles, features in memory or on disk; and the batch of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from excora.ragged import Ragged

if TYPE_CHECKING:
    import pandas as pd

Index = NDArray[np.intp]


class TableInput(NamedTuple):
    """Rows of a table as a model reads them."""

    numeric: Tensor  #: (n, numeric columns) float32, standardised; 0 where missing
    missing: Tensor  #: (n, numeric columns) bool
    codes: Tensor  #: (n, categorical columns) int64; 0 = a category that training has not seen


@dataclass(frozen=True)
class RetrievalInput:
    """Rows of a table with the training rows most like each of them; a slice of it is a slice of the rows."""

    table: TableInput
    neighbours: Tensor  #: (n, k) int64, numbers of training rows, nearest first
    allowed: Tensor  #: (n, k) bool; False where there are fewer than k to choose from

    def __getitem__(self, rows: Any) -> RetrievalInput:
        return RetrievalInput(TableInput(*(p[rows] for p in self.table)), self.neighbours[rows], self.allowed[rows])

    def to(self, *arguments: Any, **keywords: Any) -> RetrievalInput:
        """On another device, as ``Tensor.to``."""
        parts = (part.to(*arguments, **keywords) for part in (*self.table, self.neighbours, self.allowed))
        return RetrievalInput(TableInput(next(parts), next(parts), next(parts)), next(parts), next(parts))

    def double(self) -> RetrievalInput:
        """The numbers in double precision."""
        return replace(self, table=self.table._replace(numeric=self.table.numeric.double()))


Input = TableInput | RetrievalInput | Tensor | Ragged
"""What feeds a model: table rows, alone or with neighbours; bags of one size (n, elements, width), or several."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a network reads and how much it predicts: a table's columns, or the width of a bag's elements."""

    targets: int
    width: int = 0  #: of the elements of a bag; 0 for tables
    numeric: int = 0  #: numeric columns of a table
    categories: tuple[int, ...] = ()  #: codes of each categorical column, 0 (unseen) included


class Bags(Protocol):
    """Bags on disk or in memory, read one or some at a time."""

    lengths: Index  #: elements of each bag
    width: int  #: features of an element

    def read(self, index: int) -> NDArray[np.float32]:
        """The elements of one bag, (lengths[index], width), finite."""
        ...

    def gather(self, index: Index) -> NDArray[np.float32]:
        """A copy of the elements of some bags, at least one, end to end."""
        return np.concatenate([self.read(int(place)) for place in index])


@dataclass(frozen=True)
class Dataset:
    """Samples as the user has them: nothing is scaled, imputed or split yet.

    Exactly one of ``frame`` (a table: the feature columns, one row a sample) and ``bags`` is set.
    """

    ids: NDArray[np.object_]  #: (n,) a name for each sample: bag id, or the row number as text
    targets: tuple[str, ...]  #: names of the targets
    target: NDArray[np.float64] | None = None  #: (n, targets), finite; None for data to predict
    frame: pd.DataFrame | None = None
    bags: Bags | None = None
    group: NDArray[np.object_] | None = None  #: (n,) as text; a split never cuts a group
    time: NDArray[np.float64] | None = None  #: (n,) what orders the samples in time
    weight: NDArray[np.float64] | None = None  #: (n,) >= 0
    features: tuple[str, ...] = ()  #: names of the features of an element, where the file gives them (long tables)
    notes: tuple[str, ...] = ()  #: what a reader noticed and the user should know

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def kind(self) -> Literal["table", "bags"]:
        """What a sample is: a row, or a bag."""
        return "table" if self.bags is None else "bags"

    def without_target(self) -> Dataset:
        """The same samples with their labels hidden."""
        return replace(self, target=None)


class Features(Protocol):
    """Prepared features of a data set: what a batch is read from."""

    sizes: Index  #: elements of each sample, for batching by size

    def read(self, index: Index) -> Input:
        """The samples of ``index``, in that order."""
        ...


@dataclass(frozen=True)
class Batch:
    """Samples on their way to the model; targets are standardised."""

    x: Input
    target: Tensor  #: (n, targets) float32
    weight: Tensor | None  #: (n,) float32
    index: Tensor  #: (n,) int64, positions in the data set

    def __len__(self) -> int:
        return len(self.index)

    def to(self, *arguments: Any, **keywords: Any) -> Batch:
        """Moved to a device, as ``Tensor.to``."""
        weight = None if self.weight is None else self.weight.to(*arguments, **keywords)
        return Batch(move(self.x, *arguments, **keywords), self.target.to(*arguments, **keywords), weight, self.index)


def move(x: Input, *arguments: Any, **keywords: Any) -> Input:
    """The input on another device."""
    if isinstance(x, Ragged):
        return Ragged(x.values.to(*arguments, **keywords), x.lengths)
    if isinstance(x, TableInput):
        return TableInput(*(part.to(*arguments, **keywords) for part in x))
    return x.to(*arguments, **keywords)
