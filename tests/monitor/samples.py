"""What the tests of this folder share."""

from __future__ import annotations

import torch


def bags_of(
    count: int = 24, elements: int = 7, dim: int = 5, spread: float = 0.05
) -> tuple[torch.Tensor, torch.Tensor]:
    h = torch.randn(count, 1, dim, dtype=torch.float64) + spread * torch.randn(
        count, elements, dim, dtype=torch.float64
    )
    mask = torch.arange(elements) < torch.randint(2, elements + 1, (count, 1))
    return h.masked_fill(~mask.unsqueeze(-1), torch.nan), mask


def close(ours: float | int | None, theirs: float | None, tolerance: float = 1e-9) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return abs(ours - theirs) <= tolerance * max(abs(theirs), 1e-3)
