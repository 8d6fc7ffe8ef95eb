"""Labelled examples and a query in one bag: what the examples alone can teach, when the task is new each time.

    x_i ~ N(0, I_d),  y_i = beta_i.x_i + N(0, s2),  beta_i ~ N(0, I_d),  E[beta_i beta_j'] = similarity^|i-j| I

A bag holds (x_i, y_i) for i = 1..n and the query (x_(n+1), 0); the label is y_(n+1). The best that one linear step can
do: :mod:`excora.theory.in_context`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task

#: Bags by which the correlation of the best function is measured.
DRAWN = 4000


@tasks.named("in-context-linear")
@dataclasses.dataclass(frozen=True, kw_only=True)
class InContextLinearTask(Task):
    """One setting: ``dim`` d, ``examples`` n, ``noise`` s2; ``similarity`` 1: one task a bag, below: it drifts.

    >>> task = InContextLinearTask(dim=5, examples=10)
    >>> x, y = task.sample(3, seed=0)
    >>> x.shape, x[:, -1, -1].tolist()
    (torch.Size([3, 11, 6]), [0.0, 0.0, 0.0])
    """

    says: ClassVar[str] = "labelled examples and a query: a linear task that is new in each bag, and may drift"
    dim: int = 10
    examples: int = 20
    noise: float = 0.1
    similarity: float = 1.0

    def __post_init__(self) -> None:
        if self.dim < 1 or self.examples < 1 or not self.noise > 0 or not 0 <= self.similarity <= 1:
            raise InputError(
                "dim and examples must be at least 1, noise positive and similarity from 0 to 1, got "
                f"{self.dim}, {self.examples}, {self.noise} and {self.similarity}"
            )

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Bags (bags, examples + 1, dim + 1) and labels (bags,); equal for equal seeds."""
        generator = torch.Generator().manual_seed(seed)
        shape = (bags, self.examples + 1, self.dim)
        x, new = (torch.randn(*shape, generator=generator, dtype=torch.float64) for _ in range(2))
        beta, kept = new.clone(), math.sqrt(1.0 - self.similarity**2)
        for i in range(1, self.examples + 1):
            beta[:, i] = self.similarity * beta[:, i - 1] + kept * new[:, i]
        error = torch.randn(shape[:2], generator=generator, dtype=torch.float64)
        y = (beta * x).sum(-1) + math.sqrt(self.noise) * error
        shown = torch.cat([y[:, :-1], torch.zeros(bags, 1, dtype=y.dtype)], 1)
        return torch.cat([x, shown.unsqueeze(-1)], -1).to(dtype), y[:, -1].to(dtype)

    @property
    def bayes_pcc(self) -> float:
        """sqrt(E[k'K^-1 k] / (d + s2)): labels are normal given the features, K_ij = C_ij x_i.x_j + s2 1{i=j}."""
        x = self.sample(DRAWN, seed=0, dtype=torch.float64)[0][..., :-1]
        place = torch.arange(self.examples + 1, dtype=torch.float64)
        cov = self.similarity ** (place - place.unsqueeze(1)).abs() * (x @ x.mT)
        known = cov[:, :-1, :-1] + self.noise * torch.eye(self.examples, dtype=x.dtype)
        k = cov[:, :-1, -1:]
        explained = (k * torch.linalg.solve(known, k)).sum((1, 2)).mean()
        whole = cov[:, -1, -1].mean() + self.noise  # its mean is d + s2; of the same draws, their scatter cancels
        return float((explained / whole).sqrt())
