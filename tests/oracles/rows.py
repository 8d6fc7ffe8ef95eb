"""Rows of a table and a model away from its start, for the tests of the models."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.data.table import TableFeatures, TableSpec

CATEGORIES = (3, 2, 4)


def table(n: int, numeric: int, categories: tuple[int, ...] = (), *, missing: float = 0.0) -> dict[str, Tensor]:
    """Random rows by the names of their parts, in float64."""
    hidden = torch.rand(n, numeric) < missing
    codes = torch.stack([torch.randint(0, k, (n,)) for k in categories], 1) if categories else torch.zeros(n, 0).long()
    numbers = torch.randn(n, numeric, dtype=torch.float64).masked_fill(hidden, 0.0)
    return {"numeric": numbers, "missing": hidden, "codes": codes}


def single(rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """The rows with their numbers in float32."""
    return rows | {"numeric": rows["numeric"].float()}


def some(rows: dict[str, Tensor], part: slice) -> dict[str, Tensor]:
    """Some of the rows."""
    return {name: x[part] for name, x in rows.items()}


def randomised(model: nn.Module, std: float = 0.3) -> nn.Module:
    """Away from every start: zero biases and unit norms hide faults."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(std * torch.randn_like(parameter))
    return model


def wavy(n: int = 260, targets: int = 1, seed: int = 0) -> tuple[TableSpec, TableFeatures, NDArray[np.float32]]:
    """Prepared rows and labels: a wavy function of one of four columns, one of another's gaps, and of a category."""
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n, 4)).astype(np.float32)
    codes = generator.integers(1, 4, (n, 1))
    missing = np.zeros((n, 4), bool)
    missing[:, 3] = generator.random(n) < 0.3
    y = np.sin(2 * numeric[:, :1]) + 0.5 * (codes == 2) + 0.5 * missing[:, 3:]
    y = np.concatenate([y, -y + 0.1 * generator.normal(size=y.shape)], 1)[:, :targets]
    target = ((y - y.mean(0)) / y.std(0)).astype(np.float32)
    spec = TableSpec(targets=targets, numeric=4, categories=(4,))
    return spec, TableFeatures(np.where(missing, 0, numeric).astype(np.float32), missing, codes), target


def plain_rows(x: NDArray[np.float32]) -> TableFeatures:
    """Prepared rows of numbers, none of them missing."""
    return TableFeatures(x, np.zeros(x.shape, bool), np.zeros((len(x), 0), np.int64))
