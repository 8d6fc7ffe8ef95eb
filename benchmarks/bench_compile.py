"""Pool and head under ``torch.compile`` (inductor): ECAPool against the plain pool of bench_pool, compiled as well.

One thread, masked, with a linear head; *training* is forward + backward with the gradient of h, *inference* without a
graph. The least CPU time of calls taken in turns.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from benchmarks.bench_pool import OneQuery, Plain, measured, steps, trained
from benchmarks.timing import Row

SHAPES = [(128, 82, 256), (32, 500, 128), (16, 2000, 512)]


class Headed(nn.Module):
    """A pool and a linear head."""

    def __init__(self, pool: nn.Module, dim: int) -> None:
        super().__init__()
        self.pool, self.head = pool, nn.Linear(dim, 1)

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        out = self.pool(h, mask)
        return self.head(out if isinstance(out, Tensor) else out.value)


def run() -> list[Row]:
    """All shapes and both uses, with and without a mask."""
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    for shape in SHAPES:
        h, grad = torch.randn(shape), torch.randn(shape[0], 1)
        full = torch.arange(shape[1]) < torch.randint(shape[1] // 2, shape[1] + 1, (shape[0], 1))
        for use in ("training", "inference"):
            for mask in (None, full):
                torch.compiler.reset()
                pools = [trained(shape[2]), Plain(shape[2]), OneQuery(shape[2])]
                compiled = [torch.compile(Headed(pool, shape[2]), fullgraph=True, dynamic=False) for pool in pools]
                sides = [steps(use, module, h, mask, grad) for module in compiled]
                rounds = 15 if shape[0] == 16 else 61
                ours, *others = (min(found) for found in measured(sides, rounds, time.process_time))
                name = f"ECAPool / plain {shape}, {use}{', mask' * (mask is not None)}, compiled"
                other = min(others)
                rows.append(Row(name=name, target=1.2, at_least=False, ratio=ours / other, ours=ours, other=other))
    torch.set_num_threads(before)
    return rows
