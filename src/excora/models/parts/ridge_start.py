"""A ridge that a network of neighbours starts from: what the rows' labels are beyond it, and its prediction."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from excora.stats.ridge import left_out_ridge

#: Residuals of a smaller deviation count as none: they are rounding errors of a linear target.
NONE = 1e-6


class RidgeStart(nn.Module):
    """f(x) = x W + c by :func:`excora.stats.ridge.left_out_ridge`, and residuals r_i = (y_i - f_-i(x_i)) / s.

    f_-i is the fit to all rows but i, so that a residual is as large as that of a new row; s is their deviation, by
    target. Attention over residuals then predicts f(q) + s sum_i alpha_i r_i.

    >>> x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    >>> start = RidgeStart(2, 1)
    >>> left_out, residuals = start.fit(x, x[:, :1] + x[:, :1].square())
    >>> round(residuals.square().mean().item(), 3), start(x).shape
    (1.0, torch.Size([40, 1]))
    """

    weight: Tensor
    bias: Tensor
    scale: Tensor

    def __init__(self, columns: int, targets: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(columns, targets))
        self.register_buffer("bias", torch.zeros(targets))
        self.register_buffer("scale", torch.ones(targets))

    @torch.no_grad()
    def fit(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of rows (n, columns) and labels (n, targets): f_-i(x_i) and r_i, (n, targets) each."""
        found = left_out_ridge(x.double().numpy(), y.double().numpy())
        missed = y.double().numpy() - found.left_out
        scale = np.maximum(np.sqrt((missed**2).mean(0)), NONE)
        for buffer, value in zip(self.buffers(), (*found.line, scale), strict=True):
            buffer.copy_(torch.from_numpy(value))
        return torch.from_numpy(found.left_out).to(y), torch.from_numpy(missed / scale).to(y)

    def forward(self, x: Tensor) -> Tensor:
        """f(x), (n, targets)."""
        return x.to(self.weight.dtype) @ self.weight + self.bias
