"""What a call takes that has no work worth mentioning: ``python -m checks.empty_call``, one thread, some seconds.

Bags of 8 x 4 x 64, by the modules and steps of ``benchmarks/bench_pool.py``, in turns; the least wall time of 3,000
calls, in microseconds.
"""

from __future__ import annotations

import time

import torch

from benchmarks.bench_pool import OneQuery, Plain, measured, steps, trained
from excora.console import aligned
from excora.pooling import SoftmaxPool

SHAPE = (8, 4, 64)


def main() -> None:
    """The table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    h, grad = torch.randn(SHAPE), torch.randn(SHAPE[0], SHAPE[2])
    real = torch.arange(SHAPE[1]) < torch.randint(1, SHAPE[1] + 1, (SHAPE[0], 1))
    modules = {"ECAPool": trained(SHAPE[2]), "SoftmaxPool": SoftmaxPool(SHAPE[2]), "plain": Plain(SHAPE[2])}
    modules["SDPA"] = OneQuery(SHAPE[2])
    lines = [["", *modules]]
    for use in ("training", "frozen", "inference"):
        for mask in (None, real):
            sides = [steps(use, module, h, mask, grad) for module in modules.values()]
            least = [1e3 * min(found) for found in measured(sides, 3000, time.perf_counter)]
            lines.append([use + ", mask" * (mask is not None), *(f"{x:.0f}" for x in least)])
    print("\n".join(aligned(lines, right={1, 2, 3, 4})))


if __name__ == "__main__":
    main()
