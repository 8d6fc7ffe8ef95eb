"""``TabularRegressor().fit`` on 20,000 x 30 rows, by the clock, against a minute.

Ten of the columns matter: smooth curves, products, a kink; the noise leaves a PCC of 0.97 for the true function.
``python -m checks.tabular_budget`` says what PCC the fit reaches, and what the FT-Transformer does.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Row
from excora import TabularRegressor

ROWS, COLUMNS, SECONDS = 20_000, 30, 60.0
Floats = NDArray[np.float64]


def table(rows: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Rows (rows, 30), their labels, and the labels without noise."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, COLUMNS))
    curves = np.sin(2 * x[:, 0]) + 0.5 * np.square(x[:, 1]) + np.tanh(2 * x[:, 2]) + np.maximum(x[:, 3], 0)
    products = x[:, 4] * x[:, 5] + np.tanh(x[:, 6]) * np.sin(x[:, 7])
    true = curves + products + 0.5 * (x[:, 8] - x[:, 9])
    return x, true + 0.5 * generator.normal(size=rows), true


def run() -> list[Row]:
    """Once: a second fit takes as long."""
    x, y, _ = table(ROWS, seed=0)
    start = time.perf_counter()
    TabularRegressor(random_state=0).fit(x, y)
    seconds = time.perf_counter() - start
    name = f"TabularRegressor().fit, {ROWS:,} x {COLUMNS} / 1 minute"
    return [
        Row(name=name, target=1.0, at_least=False, ratio=seconds / SECONDS, ours=seconds * 1e3, other=SECONDS * 1e3)
    ]
