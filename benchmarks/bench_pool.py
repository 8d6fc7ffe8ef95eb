"""ECAPool against the best plain attention pooling a user would write: training, frozen features, inference.

The plain side is the faster of two: a linear scorer, masked_fill, softmax and bmm; or scaled_dot_product_attention with
one learned query. *Training* is forward + backward with the gradient of h, *frozen* without it (features of a frozen
encoder), *inference* without a graph. Each with and without a mask, on one thread, on two, and on two while another
process keeps a core busy. ``EXCORA_COMPILED=0 python -m benchmarks pool`` measures without the
compiled form, and writes to ``results/torch_only``.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Row, peak_extra_memory
from excora import ECAPool

LARGE = [(16, 2000, 512), (4, 20000, 512)]
SMALL = [(128, 82, 256), (32, 500, 128)]
USES = ("training", "frozen", "inference")


def trained(dim: int) -> ECAPool:
    """All components on and away from their start, where a shortcut could hide."""
    pool = ECAPool(dim)
    with torch.no_grad():
        for parameter in pool.extrapolation_parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return pool


class Plain(nn.Module):
    """Softmax attention pooling as people write it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scorer = nn.Linear(dim, 1)

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        logits = self.scorer(h).squeeze(-1)
        if mask is not None:
            logits = logits.masked_fill(~mask, -math.inf)
        return torch.bmm(torch.softmax(logits, 1).unsqueeze(1), h).squeeze(1)


class OneQuery(nn.Module):
    """The same by torch's fused attention with one learned query."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(dim))

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        query, keys = self.query.expand(len(h), 1, 1, -1), h.unsqueeze(1)
        allowed = None if mask is None else mask[:, None, None]
        return F.scaled_dot_product_attention(query, keys, keys, allowed)[:, 0, 0]


def steps(use: str, module: nn.Module, h: Tensor, mask: Tensor | None, grad: Tensor) -> Callable[[], object]:
    """What is timed."""
    h = h.detach().requires_grad_(use == "training")

    def value() -> Tensor:
        out = module(h, mask)
        return out if isinstance(out, Tensor) else out.value

    def step() -> None:
        h.grad = None
        module.zero_grad(set_to_none=True)
        value().backward(grad)

    return torch.no_grad()(value) if use == "inference" else step


def measured(sides: list[Callable[[], object]], rounds: int, clock: Callable[[], float]) -> list[list[float]]:
    """Milliseconds of every call, taken in turns so that a busy moment hits all."""
    times: list[list[float]] = [[] for _ in sides]
    for side in sides:
        side()
    for _ in range(rounds):
        for side, found in zip(sides, times, strict=True):
            start = clock()
            side()
            found.append((clock() - start) * 1e3)
    return times


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process that never rests."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def grid(threads: int, busy: bool) -> list[Row]:
    """All shapes and uses.

    One thread: the least CPU time. Two: the least wall time, which is when nobody else had a core. With a busy core
    somebody always has, and what is asked is how a call usually fares: the median.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    rows = []
    for shape in SMALL + LARGE:
        h, grad = torch.randn(shape), torch.randn(shape[0], shape[2])
        modules = [trained(shape[2]), Plain(shape[2]), OneQuery(shape[2])]
        full = torch.arange(shape[1]) < torch.randint(shape[1] // 2, shape[1] + 1, (shape[0], 1))
        for use in USES:
            for mask in (None, full):
                sides = [steps(use, module, h, mask, grad) for module in modules]
                rounds = 11 if shape in LARGE else 41 if busy else 101
                clock, pick = (
                    time.process_time if threads == 1 else time.perf_counter,
                    statistics.median if busy else min,
                )
                ours, *others = (pick(found) for found in measured(sides, rounds, clock))
                target = 2.0 if busy else 1.1 if use == "training" and shape in LARGE else 1.5
                where = f"{threads} thread{'s' * (threads > 1)}{', a core busy' * busy}"
                name = f"ECAPool / plain {shape}, {use}{', mask' * (mask is not None)}, {where}"
                best = min(others)
                rows.append(Row(name=name, target=target, at_least=False, ratio=ours / best, ours=ours, other=best))
    torch.set_num_threads(before)
    return rows


def run() -> list[Row]:
    """The whole grid, and peak memory."""
    torch.manual_seed(0)
    rows = grid(1, busy=False) + grid(2, busy=False)
    if (os.cpu_count() or 1) == 2:  # elsewhere one busy core would leave two free ones
        with busy_core():
            rows += grid(2, busy=True)
    return rows + [memory(shape) for shape in LARGE]


def memory(shape: tuple[int, int, int]) -> Row:
    """Peak memory above the inputs, forward + backward, each side in a process of its own; in MB, not milliseconds."""
    ours, other = (
        peak_extra_memory(
            f"""
            import torch
            from benchmarks.bench_pool import ECAPool, Plain, steps
            pool, h = {name}({shape[2]}), torch.randn({shape})
            grad = torch.randn({shape[0]}, {shape[2]})
            steps("training", pool, torch.randn(2, 3, {shape[2]}), None, grad[:2])()
            def main():
                steps("training", pool, h, None, grad)()
            """
        )
        for name in ("ECAPool", "Plain")
    )
    name = f"peak extra MB, ECAPool / plain {shape}, training"
    return Row(name=name, target=1.1, at_least=False, ratio=ours / other, ours=ours, other=other)
