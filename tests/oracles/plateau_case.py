"""A random batch for the tests of the theory: padded bags, several heads and targets, missing labels, weights."""

from __future__ import annotations

import torch
from torch import Tensor

from excora.functional import dispersion, hull_radius, masked_softmax

DOUBLE = torch.float64


class Case:
    """A random batch of padded bags with several heads and targets; labels are missing, bags are weighted."""

    def __init__(
        self, seed: int, bags: int = 6, elements: int = 4, dim: int = 3, spread: float = 1.0, targets: int = 3
    ) -> None:
        g = torch.Generator().manual_seed(seed)
        normal = lambda *shape: torch.randn(*shape, generator=g, dtype=DOUBLE)  # noqa: E731
        uniform = lambda *shape: torch.rand(*shape, generator=g, dtype=DOUBLE)  # noqa: E731
        self.elements = uniform(bags, elements) < 0.8
        self.elements[:, 0] = True
        noise = spread * normal(bags, elements, dim) * normal(bags, elements, 1).exp()
        self.h = (normal(bags, 1, dim) + noise).masked_fill(~self.elements.unsqueeze(-1), torch.nan)
        self.head, self.bias = normal(targets, dim), normal(targets)
        self.z = 2 * normal(bags, elements)
        self.labels = uniform(bags, targets) < 0.85
        self.labels[:3] = True
        self.y = normal(bags, targets).pow(3).masked_fill(~self.labels, torch.nan)
        self.weight = torch.randint(0, 4, (bags,), generator=g).to(DOUBLE)
        self.weight[:3] += 1
        self.count = self.elements.sum(1)
        self.clean = self.h.masked_fill(~self.elements.unsqueeze(-1), 0.0)

    @property
    def options(self) -> dict[str, Tensor]:
        return {"mask": self.labels, "weight": self.weight}

    @property
    def sigma(self) -> Tensor:
        return dispersion(self.h, self.elements)

    @property
    def radius(self) -> Tensor:
        return hull_radius(self.h, self.elements)

    @property
    def mean_prediction(self) -> Tensor:
        return self.predict(torch.zeros_like(self.z))

    def predict(self, z: Tensor) -> Tensor:
        pooled = (masked_softmax(z, self.elements).unsqueeze(-1) * self.clean).sum(1)
        return pooled @ self.head.t() + self.bias

    def rows(self, target: int) -> list[int]:
        """The rows that a target sees, each as often as its weight says."""
        times = (self.weight * self.labels[:, target]).long().tolist()
        return [row for row, n in enumerate(times) for _ in range(n)]
