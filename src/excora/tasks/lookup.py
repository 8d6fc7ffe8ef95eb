"""Lookup: the label of a row stands in a copy of it, and nowhere else.

    x_i ~ N(0, I), y_i ~ N(0, 1), independent;  a bag: (x_i, y_i, 1) for i = 1..n in random order, then (x_q, 0, 0) for
    a row q of them;  label y_q

A model that treats rows by themselves has a correlation of 0, whatever it learns; one that attends between rows can
find the copy. :meth:`LookupTask.tables` asks about all rows of a table at once. The protein-duplicate experiment of
Kossen, Band et al. (NeurIPS 2021).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task


@tasks.named("lookup")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LookupTask(Task):
    """Tables of ``rows`` rows with ``features`` features each.

    >>> bags, y = LookupTask(features=3, rows=5).sample(2, seed=0)
    >>> bags.shape, bags[:, -1, 3:].tolist()
    (torch.Size([2, 6, 5]), [[0.0, 0.0], [0.0, 0.0]])
    """

    says: ClassVar[str] = (
        "a row whose label stands in a copy of it, and nowhere else: what attention between rows is for"
    )
    features: int = 4
    rows: int = 32

    def __post_init__(self) -> None:
        if self.features < 1 or self.rows < 2:
            raise InputError(f"features must be at least 1 and rows at least 2, got {self.features} and {self.rows}")

    def tables(self, count: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Tables (count, 2 rows, features + 2), the second half copies with labels, and the labels (count, rows).

        The last two channels are the label and whether it is shown: 0 and 0 in the first half. Copies are in random
        order. Equal for equal seeds.
        """
        generator = torch.Generator().manual_seed(seed)
        shape = (count, self.rows)
        x = torch.randn(*shape, self.features, generator=generator, dtype=torch.float64)
        y = torch.randn(shape, generator=generator, dtype=torch.float64)
        order = torch.rand(shape, generator=generator).argsort(1)
        hidden = torch.cat([x, torch.zeros(*shape, 2, dtype=x.dtype)], -1)
        shown = torch.cat([x, y.unsqueeze(-1), torch.ones(*shape, 1, dtype=x.dtype)], -1)
        copies = shown.gather(1, order.unsqueeze(-1).expand(-1, -1, self.features + 2))
        return torch.cat([hidden, copies], 1).to(dtype), y.to(dtype)

    def intervened(self, tables: Tensor, *, seed: int) -> tuple[Tensor, Tensor]:
        """Tables whose copies have new labels, and these (count, rows): a model that looks them up follows."""
        fresh = torch.randn(tables.shape[0], self.rows, generator=torch.Generator().manual_seed(seed)).to(tables)
        found = tables.clone()
        x = tables[:, : self.rows, None, : self.features]
        place = (x == tables[:, None, self.rows :, : self.features]).all(-1).to(torch.int8).argmax(2)
        found[:, self.rows :, self.features].scatter_(1, place, fresh)
        return found, fresh

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Bags (bags, rows + 1, features + 2), the row that is asked about last, and labels (bags,)."""
        tables, y = self.tables(bags, seed=seed, dtype=dtype)
        return torch.cat([tables[:, self.rows :], tables[:, :1]], 1), y[:, 0]

    @property
    def bayes_pcc(self) -> float:
        """1: the label is there to be read."""
        return 1.0
