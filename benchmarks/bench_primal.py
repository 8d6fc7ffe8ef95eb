"""PrimalAttention against nn.MultiheadAttention (SDPA), forward and backward, for bags of 1,000 to 100,000 elements."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.timing import Row, peak_extra_memory, row
from excora.primal import PrimalAttention

DIM, HEADS = 64, 4
#: Beyond, a step of SDPA takes minutes: its time grows by the square.
LONGEST = 10_000

STEP = """
import torch
from excora.primal import PrimalAttention

layer, h = PrimalAttention(64, heads=4), torch.randn(1, {n}, 64)
def main():
    layer(h).square().mean().backward()
"""


def run() -> list[Row]:
    torch.manual_seed(0)
    primal, usual = PrimalAttention(DIM, heads=HEADS), nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    rows = []
    for n, target in ((1000, 2.0), (3000, 1.0), (LONGEST, 0.3)):
        h = torch.randn(1, n, DIM)

        def ours(h: torch.Tensor = h) -> None:
            primal(h).square().mean().backward()

        def other(h: torch.Tensor = h) -> None:
            usual(h, h, h, need_weights=False)[0].square().mean().backward()

        rows.append(row(f"PrimalAttention / SDPA, {n:,} elements", target, ours, other, rounds=3))
    large, small = (torch.randn(1, n, DIM) for n in (100_000, LONGEST))
    name = "PrimalAttention, 100,000 / 10,000 elements"
    rows.append(
        row(name, 15.0, lambda: primal(large).sum().backward(), lambda: primal(small).sum().backward(), rounds=3)
    )
    mine, theirs = (peak_extra_memory(STEP.format(n=n)) for n in (100_000, LONGEST))
    name = "PrimalAttention, 100,000 / 10,000 elements, MB"
    return [*rows, Row(name=name, target=15.0, at_least=False, ratio=mine / theirs, ours=mine, other=theirs)]
