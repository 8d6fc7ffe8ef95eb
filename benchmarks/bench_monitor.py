"""PlateauMonitor: its update of a batch against the training step it belongs to, and the end of an epoch.

Bags of 64 x 200 x 128. A step is encoder (a linear layer and ReLU on each element), pool, head, JointLoss, backward and
Adam. The update is timed within the step: a difference of two steps would drown in the noise of either.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.timing import Row, compare
from excora.losses import JointLoss
from excora.monitor import PlateauMonitor
from excora.monitor.epoch import EVERY
from excora.pooling import ECAPool, Pool, SoftmaxPool

BAGS, ELEMENTS, DIM, BATCHES = 64, 200, 128, 100


def _measure(name: str, pool: Pool, head: nn.Module, x: Tensor, y: Tensor) -> Row:
    """Median milliseconds of the update, timed within the step, against the rest of the step."""
    encoder = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU())
    parameters = [p for module in (encoder, pool, head) for p in module.parameters()]
    optimiser, loss, monitor = torch.optim.Adam(parameters), JointLoss(), PlateauMonitor()
    updates, steps = [], []
    for _ in range(15 * EVERY):
        start = time.perf_counter()
        h = encoder(x)
        pooled = pool(h)
        prediction = head(pooled.value).squeeze(1)
        before = time.perf_counter()
        monitor.update(prediction, y, pooled=pooled, h=h, head=head)
        after = time.perf_counter()
        optimiser.zero_grad()
        loss(prediction, y, penalty=pooled.penalty).backward()
        optimiser.step()
        updates.append((after - before) * 1e3)
        steps.append((time.perf_counter() - start) * 1e3 - updates[-1])
    # Every fourth update of a large batch measures its geometry: what counts is the mean over four of them.
    fours = [statistics.mean(updates[i : i + EVERY]) for i in range(EVERY, len(updates), EVERY)]
    ours, other = statistics.median(fours), statistics.median(steps[EVERY:])
    name = f"monitor, update / step, {name}"
    return Row(name=name, target=0.05, at_least=False, ratio=ours / other, ours=ours, other=other)


def _filled(batches: int) -> PlateauMonitor:
    """A monitor with an epoch of ``batches`` batches, not yet closed."""
    pool, head, monitor = ECAPool(DIM), nn.Linear(DIM, 1), PlateauMonitor()
    for _ in range(batches):
        h = torch.randn(BAGS, ELEMENTS, DIM)
        with torch.no_grad():
            pooled = pool(h)
            monitor.update(head(pooled.value).squeeze(1), torch.randn(BAGS), pooled=pooled, h=h, head=head)
    return monitor


def run() -> list[Row]:
    """The update for each kind of pool and head; the end of an epoch, which is to cost less than 5 % of its steps."""
    torch.manual_seed(0)
    x, y = torch.randn(BAGS, ELEMENTS, DIM), torch.randn(BAGS)

    def mlp() -> nn.Module:
        return nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, 1))

    cases: list[tuple[str, Callable[[], Pool], Callable[[], nn.Module]]] = [
        ("ECAPool, linear head", lambda: ECAPool(DIM), lambda: nn.Linear(DIM, 1)),
        ("ECAPool, non-linear head", lambda: ECAPool(DIM), mlp),
        ("SoftmaxPool, linear head", lambda: SoftmaxPool(DIM), lambda: nn.Linear(DIM, 1)),
    ]
    rows = [_measure(name, pool(), head(), x, y) for name, pool, head in cases]
    monitor = _filled(BATCHES)

    def end() -> None:
        epoch = monitor._epoch
        monitor.end_epoch()
        monitor._epoch = epoch  # the same epoch once more

    ours = compare(end, lambda: None, rounds=7)[0]
    steps = BATCHES * rows[0]["other"]
    name = f"monitor, end of an epoch of {BATCHES * BAGS} bags / its steps"
    return [*rows, Row(name=name, target=0.05, at_least=False, ratio=ours / steps, ours=ours, other=steps)]
