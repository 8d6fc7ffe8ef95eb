"""The door of the tasks: samples drawn at will, and the best that any model can do on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor


def orthonormal_pair(dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two random directions, orthonormal, float64, (dim,) each; the same for equal seeds."""
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(dim, 2, generator=generator, dtype=torch.float64))
    return basis[:, 0], basis[:, 1]


class Task(ABC):
    """A generator with a known answer. Built without arguments it is a task of moderate size.

    ``excora.tasks.tasks.register(name, TheTask)`` opens the door to it.
    """

    says: ClassVar[str]  #: what it is for, in a line

    @abstractmethod
    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Bags (bags, elements, dim) and labels (bags,); equal for equal seeds, in any dtype up to rounding."""

    @property
    @abstractmethod
    def bayes_pcc(self) -> float:
        """Best correlation with the label of any function of the bag."""
