"""Cells of a row that are hidden in training, and how well the rest of the table tells them: a named loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.data.table import TableSpec
from excora.errors import InputError
from excora.functional import at_least_float32
from excora.reduce import Penalty

#: Of the loss. DIFF: the paper goes from 1 to 0 along a cosine while it trains.
WEIGHT = 0.1


class HiddenCells(nn.Module):
    """A learned token a column in place of ``share`` of the cells, and a linear guess of each from its last token.

        loss = 0.1 mean over hidden cells of (x - x_hat)^2, or -log p(code) for a category

    Missing numbers are neither hidden nor guessed.

    >>> cells = HiddenCells(TableSpec(targets=1, numeric=2, categories=(3,)), dim=4, share=0.5)
    >>> x = {"numeric": torch.randn(5, 2), "missing": torch.zeros(5, 2, dtype=torch.bool)}
    >>> x |= {"codes": torch.zeros(5, 1, dtype=torch.long)}
    >>> hide = torch.ones(5, 3, dtype=torch.bool)
    >>> cells.cover(torch.randn(5, 3, 4), hide).shape, int(cells.loss(torch.randn(5, 3, 4), x, hide).count)
    (torch.Size([5, 3, 4]), 15)
    """

    def __init__(self, spec: TableSpec, dim: int, share: float) -> None:
        super().__init__()
        if not 0.0 < share < 1.0:
            raise InputError(f"the share of hidden cells must be between 0 and 1, got {share}")
        self.spec, self.share = spec, share
        columns = spec.numeric + len(spec.categories)
        self.token = nn.Parameter(torch.empty(columns, dim).uniform_(-(dim**-0.5), dim**-0.5))
        self.number = nn.Parameter(torch.zeros(spec.numeric, dim)) if spec.numeric else None
        self.code = nn.Linear(dim, sum(spec.categories)) if spec.categories else None

    def draw(self, rows: Mapping[str, Any]) -> Tensor:
        """Which cells are hidden, (n, columns)."""
        hide = torch.rand(len(rows["codes"]), len(self.token), device=self.token.device) < self.share
        hide[:, : self.spec.numeric] &= ~rows["missing"]
        return hide

    def cover(self, cells: Tensor, hide: Tensor) -> Tensor:
        """Tokens (n, columns, dim) without what is hidden."""
        return torch.where(hide.unsqueeze(-1), self.token.to(cells.dtype), cells)

    def loss(self, last: Tensor, rows: Mapping[str, Any], hide: Tensor) -> Penalty:
        """Of the last tokens (n, columns, dim)."""
        last, numeric = at_least_float32(last), self.spec.numeric
        total = last.new_zeros(())
        if self.number is not None:
            guess = (last[:, :numeric] * self.number).sum(-1)
            wrong = guess - rows["numeric"].masked_fill(rows["missing"], 0.0)
            total = total + (wrong.square() * hide[:, :numeric]).sum()
        if self.code is not None:
            scores = self.code(last[:, numeric:])
            ends = torch.tensor(self.spec.categories).cumsum(0).tolist()
            for column, (end, size) in enumerate(zip(ends, self.spec.categories, strict=True)):
                said = at_least_float32(scores[:, column, end - size : end])
                missed = F.cross_entropy(said, rows["codes"][:, column], reduction="none")
                total = total + (missed * hide[:, numeric + column]).sum()
        return Penalty(WEIGHT * total, hide.sum().to(total.dtype))
