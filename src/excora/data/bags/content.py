"""Bags as the user has them, as a model needs to know them, and prepared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.data.bags.statistics import ElementStatistics
from excora.data.bags.stores import Bags, ChosenBags
from excora.data.dataset import Dataset, Index, Inputs, Spec
from excora.data.scaling import CLIP
from excora.data.table.content import Table
from excora.functional import at_least_float32, safe_sqrt
from excora.ragged import Ragged

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ElementTable:
    """The elements of a long table with cells of any kind: a row an element, ``order`` the rows bag by bag."""

    frame: pd.DataFrame
    order: Index
    lengths: Index
    unusable: dict[str, str] = field(default_factory=dict)  #: columns that no model could read, and why

    def take(self, index: Index) -> ElementTable:
        """The bags of ``index``, in that order; the rows stay where they are."""
        return ElementTable(self.frame, self.order[self.places(index)], self.lengths[index], self.unusable)

    def places(self, index: Index) -> Index:
        """Where in ``order`` the elements of these bags stand."""
        stops = self.lengths.cumsum()
        spans = [np.arange(stops[k] - self.lengths[k], stops[k]) for k in index]
        return np.concatenate([np.empty(0, np.intp), *spans])

    def rows(self) -> Dataset:
        """The elements as samples of a table, bag by bag."""
        content = Table(self.frame.iloc[self.order].reset_index(drop=True), self.unusable)
        return Dataset(np.arange(len(content)).astype(object), (), content=content)


@dataclass(frozen=True, eq=False)
class BagSet:
    """Bags, one a sample, and the names of the features of their elements."""

    kind: ClassVar[str] = "bags"
    bags: Bags
    names: tuple[str, ...] = ()  #: of the features, where the file gives them (long tables)
    #: Columns that no model could read, so they are no features, and why: a problem if training had them.
    unusable: dict[str, str] = field(default_factory=dict)
    #: Of a long table in which not every cell is a number, and of any that is to be predicted.
    table: ElementTable | None = None
    time: str | None = None  #: the feature that is the time of an element before the last of its bag

    def __len__(self) -> int:
        return len(self.bags.lengths)

    def take(self, index: Index) -> BagSet:
        """The bags of ``index``, in that order; nothing is copied."""
        table = None if self.table is None else self.table.take(index)
        return BagSet(ChosenBags(self.bags, index), self.names, self.unusable, table, self.time)

    def positions(self, index: int) -> NDArray[np.float64] | None:
        """Where the elements of one bag lie, (elements, 2), such as pixels of a slide; None where nobody knows."""
        return self.bags.positions(index)

    def mark(self, found: Any) -> None:
        """The width and the sizes of the bags: their elements may be more than one wants to read for this."""
        found.update(np.array([self.bags.width, *self.bags.lengths]).tobytes())
        if self.table is not None:
            self.table.rows().content.mark(found)  # type: ignore[union-attr]


@dataclass(frozen=True, kw_only=True)
class BagSpec(Spec):
    """What a network reads of bags: ``elements``, each of this width."""

    kind: ClassVar[str] = "bags"
    width: int
    time: int | None = None  #: which feature is the time of an element, if one is

    @property
    def summary(self) -> int:
        """Mean, spread and sum of each feature, and the log of the size."""
        return 3 * self.width + 1

    def summarise(self, inputs: Inputs) -> Tensor:
        """[mean, std, sum of the elements, log of their number], (n, summary); zeros for an empty bag.

        >>> BagSpec(targets=1, width=1).summarise({"elements": torch.tensor([[[1.0], [3.0]]])})
        tensor([[2.0000, 1.0000, 4.0000, 0.6931]])
        """
        bags = inputs["elements"]
        if isinstance(bags, Tensor):
            bags = Ragged(bags.flatten(0, 1), torch.full((len(bags),), bags.shape[1]))
        values, where = at_least_float32(bags.values), bags.bag_index()
        lengths = bags.lengths.to(values.device)
        size = lengths.clamp_min(1).to(values.dtype).unsqueeze(1)

        def total(x: Tensor) -> Tensor:
            return (
                torch.segment_reduce(x, "sum", lengths=lengths, initial=0.0) if len(lengths) else x.new_empty(x.shape)
            )

        added = total(values)
        mean = added / size
        std = safe_sqrt(total((values - mean[where]).square()) / size)
        return torch.cat([mean, std, added, size.log()], 1)


class BagFeatures:
    """Bags, standardised as they are read: ``elements`` (bag - mean) / std, feature by feature."""

    def __init__(self, bags: Bags, statistics: ElementStatistics) -> None:
        self._bags = bags
        self._mean = torch.tensor(statistics.mean, dtype=torch.float32)
        self._factor = torch.from_numpy(np.minimum(1 / np.array(statistics.std), 1e30).astype(np.float32))
        self.sizes: Index = np.asarray(bags.lengths, np.intp)

    def read(self, index: Index) -> Inputs:
        """The bags of ``index``: one tensor if they have one size, ragged otherwise."""
        values, sizes = torch.from_numpy(self._bags.gather(index)), self.sizes[index]
        values.sub_(self._mean).mul_(self._factor).clamp_(-CLIP, CLIP)
        if (sizes == sizes[0]).all():
            return {"elements": values.view(len(sizes), int(sizes[0]), values.shape[1])}
        return {"elements": Ragged(values, torch.from_numpy(sizes))}
