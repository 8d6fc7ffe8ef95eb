"""How much of each of several predictions to take, from what they say of rows that they were not shown."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

#: Standard errors up to which what a stack adds to a ridge is in doubt. More than chance alone asks for: metrics,
#: length scales and nuggets are chosen on the rows that are asked here.
DOUBTED = 3.5
#: What is taken of it then: of a lead that is real 1 - 0.8^2 = 36 %, of the harm of one that is chance 0.2^2 = 4 %.
LEAST = 0.2
#: Rounds over the shares; each lowers the error, and a handful is enough but for parts that are nearly the same.
ROUNDS = 200


def shares(label: Tensor, parts: list[Tensor], weight: Tensor, together: int = 0) -> Tensor:
    """(parts,) in [0, 1] that minimise sum weight (label - sum_j share_j part_j)^2, in double precision.

    ``label``, the parts and ``weight`` are of one shape. The shares of the last ``together`` parts are at most 1 in
    all. One share after the other is set to its best value, or exchanged for another one, which for a convex error
    ends at the least one.

    >>> label, one = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])
    >>> shares(label, [one, torch.ones(2)], torch.ones(2)).tolist()
    [0.5, 0.0]
    """
    free = len(parts) - together
    groups = [[j] for j in range(free)] + [list(range(free, len(parts)))] * bool(together)
    # Each group has one more part, of zeros, whose share is what is left of 1: then all that is done is to exchange.
    x = torch.stack([*(part.double().flatten() for part in parts), *[label.double().flatten() * 0] * len(groups)], 1)
    pairs = [pair for k, group in enumerate(groups) for pair in combinations([*group, len(parts) + k], 2)]
    heavy = x * weight.double().flatten().unsqueeze(1)
    gram, right = x.T @ heavy, heavy.T @ label.double().flatten()
    found = torch.cat([torch.zeros(len(parts)), torch.ones(len(groups))]).double()
    for _ in range(ROUNDS):
        for i, j in pairs:
            slope = right[i] - right[j] - (gram[i] - gram[j]) @ found
            step = slope / (gram[i, i] + gram[j, j] - 2 * gram[i, j]).clamp_min(1e-12)
            step = step.clamp(-found[i], found[j])
            found[i], found[j] = found[i] + step, found[j] - step
    return found[: len(parts)]


def borne_out(left: Tensor, added: Tensor, weight: Tensor, unit: Tensor) -> float:
    """How much to take, in [0, 1], of what is ``added`` to predictions that leave ``left`` of the labels of rows.

    1 - (:data:`DOUBTED` / z)^4, at least :data:`LEAST`, with z = b / se(b), b the slope of ``left`` on ``added``; 0
    where b is not above 0. Its standard error is one by ``unit`` (n,), what is drawn together: se^2 = U/(U-1) sum_u
    (sum_{i in u} w_i a_i e_i)^2 / (sum_i w_i a_i^2)^2 with e = left - b added. The tensors are (n, targets).

    >>> added, unit = torch.linspace(-1.0, 1.0, 20).unsqueeze(1), torch.arange(20)
    >>> borne_out(added, added, torch.ones(20, 1), unit), borne_out(-added, added, torch.ones(20, 1), unit)
    (1.0, 0.0)
    """
    left, added, weight = left.double(), added.double(), weight.double()
    square = (weight * added.square()).sum()
    if not square > 0:
        return 0.0
    slope = float((weight * added * left).sum() / square)
    each = (weight * added * (left - slope * added)).sum(1)
    numbers = unit.unique(return_inverse=True)[1]
    units = int(numbers.max()) + 1
    sums = each.new_zeros(units).index_add_(0, numbers, each)
    error = float((sums.square().sum() * units / max(units - 1, 1)).sqrt() / square)
    return max(1.0 - (DOUBTED * error / slope) ** 4, LEAST) if slope > 0 else 0.0
