"""PearsonLoss on (512, 250), forward and backward, against the plain vectorised formula."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import Row, row
from excora.losses import PearsonLoss


def plain(prediction: Tensor, target: Tensor) -> Tensor:
    """No mask, no weights, NaN for a constant target: the formula and nothing else."""
    a, b = prediction - prediction.mean(0), target - target.mean(0)
    rho = (a * b).sum(0) / (a.square().sum(0) * b.square().sum(0)).sqrt()
    return (1.0 - rho).mean()


def run() -> list[Row]:
    prediction, target = torch.randn(512, 250, requires_grad=True), torch.randn(512, 250)
    loss = PearsonLoss()

    def step(function: Callable[[Tensor, Tensor], Tensor]) -> None:
        prediction.grad = None
        function(prediction, target).backward()

    name = "PearsonLoss / plain formula, (512, 250)"
    return [row(name, 1.5, lambda: step(loss), lambda: step(plain), rounds=500)]
