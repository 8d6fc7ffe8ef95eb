"""Rows of a table and a model away from its start, for the tests of the models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
