"""A training step of the retrieval network: local-linear and kriging attention against softmax.

Rows of 30 numbers, 24 neighbours each, batches of 256: forward, MSE, backward and AdamW.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import Row, row
from excora.data.table import TableSpec
from excora.models.parts.retrieval import RetrievalNetwork

ROWS, COLUMNS, NEIGHBOURS, BATCH = 4096, 30, 24, 256


def _step(pool: str) -> Callable[[], object]:
    torch.manual_seed(0)
    network = RetrievalNetwork(
        TableSpec(targets=1, numeric=COLUMNS), context=ROWS, pool=pool, metric="diagonal", neighbours=NEIGHBOURS
    )
    inputs = _rows(BATCH) | {
        "neighbours": torch.randint(ROWS, (BATCH, NEIGHBOURS)),
        "allowed": torch.ones(BATCH, NEIGHBOURS, dtype=torch.bool),
    }
    network.keep(_rows(ROWS), torch.randn(ROWS, 1))
    target = torch.randn(BATCH, 1)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        (network(inputs).prediction - target).square().mean().backward()
        optimizer.step()

    return step


def _rows(n: int) -> dict[str, Tensor]:
    nothing = torch.zeros(n, COLUMNS, dtype=torch.bool)
    return {"numeric": torch.randn(n, COLUMNS), "missing": nothing, "codes": torch.zeros(n, 0, dtype=torch.long)}


def run() -> list[Row]:
    """Medians in turns."""
    found = []
    for pool, target in (("local-linear", 2.0), ("kriging", 2.0)):
        name = f"retrieval step of {BATCH} rows x {NEIGHBOURS} neighbours, {pool} / softmax"
        found.append(row(name, target, _step(pool), _step("softmax"), rounds=25))
    return found
