"""How much of each of several predictions to take, from what they say of rows that they were not shown."""

from __future__ import annotations

import torch
from torch import Tensor

#: Rounds over the shares; each lowers the error, and a handful is enough but for parts that are nearly the same.
ROUNDS = 200


def shares(label: Tensor, parts: list[Tensor], weight: Tensor) -> Tensor:
    """(parts,) in [0, 1] that minimise sum weight (label - sum_j share_j part_j)^2, in double precision.

    ``label``, the parts and ``weight`` are of one shape. One share after the other is set to its best value, which for
    a convex error ends at the least one.

    >>> label, one = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])
    >>> shares(label, [one, torch.ones(2)], torch.ones(2)).tolist()
    [0.5, 0.0]
    """
    x = torch.stack([part.double().flatten() for part in parts], 1)
    y, heavy = label.double().flatten(), weight.double().flatten()
    gram, right = x.T @ (x * heavy.unsqueeze(1)), x.T @ (y * heavy)
    found = torch.zeros(len(parts), dtype=torch.float64)
    for _ in range(ROUNDS):
        for j in range(len(parts)):
            rest = right[j] - gram[j] @ found + gram[j, j] * found[j]
            found[j] = (rest / gram[j, j].clamp_min(1e-12)).clamp(0.0, 1.0)
    return found
