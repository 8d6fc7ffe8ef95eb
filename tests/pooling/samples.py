"""What the tests of this folder share."""

from __future__ import annotations

import torch

from excora import ECAPool, GatedPool, MeanPool, SoftmaxPool
from excora.pooling import GatedScorer

DIM = 5
POOLS = {
    "mean": lambda: MeanPool(DIM),
    "softmax": lambda: SoftmaxPool(DIM),
    "gated": lambda: GatedPool(DIM, hidden=4),
    "eca": lambda: moved(ECAPool(DIM)),
    "eca gated": lambda: moved(ECAPool(DIM, scorer=GatedScorer(DIM, 4))),
    "eca paper": lambda: ECAPool.paper(DIM),
}


def moved(pool: ECAPool) -> ECAPool:
    """The pool with gamma and temperature away from their start."""
    with torch.no_grad():
        for parameter in pool.extrapolation_parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return pool


def batch(seed: int = 0, bags: int = 4, elements: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(bags, elements, DIM, generator=generator, dtype=torch.float64)
    mask = torch.rand(bags, elements, generator=generator) > 0.4
    mask[0] = False
    return h, mask


def state(module):
    return {name: p.detach().double().numpy() for name, p in module.named_parameters()}
