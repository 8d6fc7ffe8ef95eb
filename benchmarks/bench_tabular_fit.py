"""``TabularRegressor().fit`` on 20,000 x 30 rows, by the clock, against a minute; and on few, beside a busy process.

Ten of the columns matter: smooth curves, products, a kink; the noise leaves a PCC of 0.97 for the true function.
``python -m checks.tabular_budget`` says what PCC the fit reaches, and what the FT-Transformer does.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.bench_pool import busy_core
from benchmarks.timing import Row
from excora import TabularRegressor

ROWS, SMALL, COLUMNS, SECONDS = 20_000, 400, 30, 60.0
Floats = NDArray[np.float64]


def table(rows: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Rows (rows, 30), their labels, and the labels without noise."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, COLUMNS))
    curves = np.sin(2 * x[:, 0]) + 0.5 * np.square(x[:, 1]) + np.tanh(2 * x[:, 2]) + np.maximum(x[:, 3], 0)
    products = x[:, 4] * x[:, 5] + np.tanh(x[:, 6]) * np.sin(x[:, 7])
    true = curves + products + 0.5 * (x[:, 8] - x[:, 9])
    return x, true + 0.5 * generator.normal(size=rows), true


def seconds(rows: int, threads: int) -> float:
    """Of a fit, by the clock."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    x, y, _ = table(rows, seed=0)
    start = time.perf_counter()
    TabularRegressor(random_state=0).fit(x, y)
    found = time.perf_counter() - start
    torch.set_num_threads(before)
    return found


def run() -> list[Row]:
    """Once: a second fit takes as long. A small table, while another process has a core, on two threads and on one."""
    ours = seconds(ROWS, torch.get_num_threads())
    name = f"TabularRegressor().fit, {ROWS:,} x {COLUMNS} / 1 minute"
    rows = [Row(name=name, target=1.0, at_least=False, ratio=ours / SECONDS, ours=ours * 1e3, other=SECONDS * 1e3)]
    with busy_core():
        two, one = seconds(SMALL, 2), seconds(SMALL, 1)
    name = f"TabularRegressor().fit, {SMALL} x {COLUMNS}, a core busy, two threads / one"
    return [*rows, Row(name=name, target=1.5, at_least=False, ratio=two / one, ours=two * 1e3, other=one * 1e3)]
