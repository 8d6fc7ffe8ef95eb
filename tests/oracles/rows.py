"""Rows of a table and a model away from its start, for the tests of the models."""

from __future__ import annotations

import torch
from torch import nn

from excora.data.dataset import TableInput

CATEGORIES = (3, 2, 4)


def table(n: int, numeric: int, categories: tuple[int, ...] = (), *, missing: float = 0.0) -> TableInput:
    hidden = torch.rand(n, numeric) < missing
    codes = torch.stack([torch.randint(0, k, (n,)) for k in categories], 1) if categories else torch.zeros(n, 0).long()
    return TableInput(torch.randn(n, numeric, dtype=torch.float64).masked_fill(hidden, 0.0), hidden, codes)


def randomised(model: nn.Module, std: float = 0.3) -> nn.Module:
    """Away from every start: zero biases and unit norms hide faults."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(std * torch.randn_like(parameter))
    return model
