"""Single-location regression: one token of a sequence carries the label, and another direction says which one.

    X_J ~ N(sqrt(d/2) k*, g^2 I) at a random place J of L,  X_l ~ N(0, I) elsewhere,  y = X_J.v* + N(0, e^2),  k* _|_ v*

What a sum of erf-weighted tokens can reach: :mod:`excora.theory.single_location`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task, orthonormal_pair

#: Sequences by which the correlation of the best function is measured.
DRAWN = 100_000


@tasks.named("single-location")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SingleLocationTask(Task):
    """One setting; ``spread`` is g, ``noise`` e. The directions are random, drawn from ``direction_seed``.

    >>> task = SingleLocationTask(dim=20, length=5, noise=0.1)
    >>> x, y = task.sample(100, seed=0)
    >>> x.shape, y.shape, round(task.bayes_pcc, 2)
    (torch.Size([100, 5, 20]), torch.Size([100]), 0.98)
    """

    says: ClassVar[str] = "sequences of which one token carries the label, and shows it by another direction"
    dim: int = 40
    length: int = 10
    spread: float = math.sqrt(0.5)
    noise: float = 0.1
    direction_seed: int = 0

    def __post_init__(self) -> None:
        if self.dim < 2 or self.length < 1:
            raise InputError(f"dim must be at least 2 and length at least 1, got {self.dim} and {self.length}")
        if not self.spread > 0 or self.noise < 0:
            raise InputError(f"spread must be positive and noise not negative, got {self.spread} and {self.noise}")

    def directions(self) -> tuple[Tensor, Tensor]:
        """(k*, v*), orthonormal, float64, (dim,) each: which token it is, and what it says."""
        return orthonormal_pair(self.dim, self.direction_seed)

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Sequences (bags, length, dim) and labels (bags,); equal for equal seeds, in any dtype up to rounding."""
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(bags, self.length, self.dim, generator=generator, dtype=torch.float64)
        place = torch.randint(self.length, (bags,), generator=generator)
        error = torch.randn(bags, generator=generator, dtype=torch.float64)
        where, what = self.directions()
        rows = torch.arange(bags)
        x[rows, place] = self.spread * x[rows, place] + math.sqrt(self.dim / 2) * where
        return x.to(dtype), (x[rows, place] @ what + self.noise * error).to(dtype)

    @property
    def bayes_pcc(self) -> float:
        """Best correlation of any function of the sequence, by 100,000 draws of what such a function needs of a token.

        E[y | X] = sum_l p_l X_l.v*, p_l proportional to N(X_l; sqrt(d/2) k*, g^2 I) / N(X_l; 0, I), which only asks for
        X_l.k*, X_l.v* and the length of the rest of X_l.
        """
        generator = torch.Generator().manual_seed(0)
        g2, far = self.spread**2, math.sqrt(self.dim / 2)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        along, across = normal(DRAWN, self.length), normal(DRAWN, self.length)
        rest = torch.full((DRAWN, self.length), (self.dim - 2) / 2, dtype=torch.float64)
        rest = 2.0 * torch._standard_gamma(rest, generator=generator) if self.dim > 2 else torch.zeros_like(along)
        along[:, 0], across[:, 0], rest[:, 0] = (
            far + self.spread * along[:, 0],
            self.spread * across[:, 0],
            g2 * rest[:, 0],
        )
        evidence = ((along**2 + across**2 + rest) - ((along - far) ** 2 + across**2 + rest) / g2) / 2
        expected = (torch.softmax(evidence, 1) * across).sum(1)
        y = across[:, 0] + self.noise * normal(DRAWN)
        return float(torch.corrcoef(torch.stack([expected, y]))[0, 1])
