"""Sequences of tokens from two classes, of which some positions tell more about the label than others.

    table  e_t = c_t mu + N(0, I) for V tokens, c_t = +-1;   label y = +-1
    class s_l of position l: y with probability (1 + q_l)/2, so that E[s_l s_m] = q_l q_m; its token uniform in it

Pooled with weights w, the covariance shows mu or does not: :mod:`excora.theory.spectral`. Early positions that tell
more (``decay`` below 1) favour harmonic weights over the mean, late ones the converse.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task

#: Up to this length all sequences of classes are gone through; they double with each position.
LONGEST = 16


@tasks.named("pooled-mixture")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PooledMixtureTask(Task):
    """One setting: q_l = ``first`` * ``decay``^(l-1), ``signal`` = |mu|^2, ``vocabulary`` an even number of tokens.

    >>> task = PooledMixtureTask(dim=8, length=4)
    >>> x, y = task.sample(5, seed=0)
    >>> x.shape, sorted(set(y.abs().tolist())), round(task.bayes_pcc, 3)
    (torch.Size([5, 4, 8]), [1.0], 0.945)
    """

    says: ClassVar[str] = "sequences of tokens from two classes whose positions differ in how much they tell"
    dim: int = 32
    vocabulary: int = 200
    length: int = 8
    signal: float = 3.0
    first: float = 0.9
    decay: float = 0.8
    table_seed: int = 0

    def __post_init__(self) -> None:
        if self.vocabulary < 2 or self.vocabulary % 2 or not 1 <= self.length <= LONGEST:
            raise InputError(
                f"vocabulary must be even, 2 or more, length 1 to {LONGEST}, got {self.vocabulary} and {self.length}"
            )
        if not (0 < self.first < 1 and self.decay > 0 and max(self.tells) < 1) or self.signal < 0:
            raise InputError("all q = first decay^(l-1) must lie between 0 and 1, and signal must not be negative")

    @property
    def tells(self) -> NDArray[np.float64]:
        """q (length,): the correlation of each position's class with the label."""
        return self.first * self.decay ** np.arange(self.length, dtype=float)

    @property
    def correlation(self) -> NDArray[np.float64]:
        """R (length, length): of the classes of two positions."""
        q = self.tells
        return np.outer(q, q) + np.diag(1.0 - q**2)

    def table(self) -> tuple[Tensor, Tensor]:
        """Embeddings (vocabulary, dim), the first half of class 1, the rest of class -1; and mu (dim,). Float64."""
        generator = torch.Generator().manual_seed(self.table_seed)
        mu = torch.randn(self.dim, generator=generator, dtype=torch.float64)
        mu *= self.signal**0.5 / mu.norm()
        noise = torch.randn(self.vocabulary, self.dim, generator=generator, dtype=torch.float64)
        sign = torch.ones(self.vocabulary, 1, dtype=torch.float64)
        sign[self.vocabulary // 2 :] = -1.0
        return sign * mu + noise, mu

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Sequences (bags, length, dim) and labels (bags,) of 1 and -1; equal for equal seeds."""
        generator = torch.Generator().manual_seed(seed)
        y = 2.0 * torch.randint(2, (bags,), generator=generator).double() - 1.0
        kept = (
            torch.rand(bags, self.length, generator=generator, dtype=torch.float64)
            < torch.from_numpy(1 + self.tells) / 2
        )
        classes = torch.where(kept, y.unsqueeze(1), -y.unsqueeze(1))
        half = self.vocabulary // 2
        token = torch.randint(half, (bags, self.length), generator=generator) + half * (classes < 0)
        return self.table()[0][token].to(dtype), y.to(dtype)

    @property
    def bayes_pcc(self) -> float:
        """sqrt(E tanh^2(sum_l s_l artanh q_l)), exactly: E[y | s] = tanh(...), and a token tells its class."""
        q = self.tells
        s = np.array(list(itertools.product((1.0, -1.0), repeat=self.length)))
        chance = np.prod((1.0 + s * q) / 2.0, 1) / 2.0 + np.prod((1.0 - s * q) / 2.0, 1) / 2.0
        return float(np.sqrt(chance @ np.tanh(s @ np.arctanh(q)) ** 2))
