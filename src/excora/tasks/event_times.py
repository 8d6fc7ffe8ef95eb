"""Events at irregular times, of which each counts by a wave of the time before the last one.

    gaps ~ Exp(1),  s_i = t_n - t_i,  x_i ~ N(0, 1),  y = n^(-1/2) sum_i x_i cos(w s_i) + N(0, noise)

Without times the events are alike, up to their order: the place of an event tells s_i in part, its time all of it.
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


@tasks.named("event-times")
@dataclasses.dataclass(frozen=True, kw_only=True)
class EventTimesTask(Task):
    """One setting: ``events`` n a bag, ``frequency`` w, ``noise`` the variance of the label's own.

    >>> x, y = EventTimesTask(events=4).sample(3, seed=0)
    >>> x.shape, x[:, -1, 1].tolist()
    (torch.Size([3, 4, 2]), [0.0, 0.0, 0.0])
    """

    says: ClassVar[str] = "events at irregular times that count by a wave of their time: order tells a part, time all"
    events: int = 12
    frequency: float = 0.5
    noise: float = 0.05

    def __post_init__(self) -> None:
        if self.events < 1 or not self.frequency > 0 or self.noise < 0:
            raise InputError(
                "events must be at least 1, frequency positive and noise not negative, got "
                f"{self.events}, {self.frequency} and {self.noise}"
            )

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Bags (bags, events, 2) of (x_i, -s_i), the last event last, and labels (bags,); equal for equal seeds."""
        generator = torch.Generator().manual_seed(seed)
        x, error = (torch.randn(*shape, generator=generator).double() for shape in ((bags, self.events), (bags,)))
        gaps = -torch.log1p(-torch.rand(bags, self.events, generator=generator, dtype=torch.float64))
        times = gaps.cumsum(1) - gaps.sum(1, keepdim=True)
        signal = (x * torch.cos(self.frequency * times)).sum(1) / math.sqrt(self.events)
        return torch.stack([x, times], -1).to(dtype), (signal + math.sqrt(self.noise) * error).to(dtype)

    @property
    def bayes_pcc(self) -> float:
        """sqrt(v / (v + noise)), v = mean_j E cos^2(w s) = mean_j (1 + Re (1 - 2iw)^-j) / 2 for j = 0..n-1 gaps."""
        waves = [((1 - 2j * self.frequency) ** -j).real for j in range(self.events)]
        v = (1 + sum(waves) / self.events) / 2
        return math.sqrt(v / (v + self.noise))
