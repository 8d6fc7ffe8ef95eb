"""What a fit of ``TabularRegressor`` costs and reaches on 20,000 x 30 rows or more: the default, the FT-Transformer.

``python -m checks.tabular_budget [TIMES [THREADS [ROWS]]]`` fits on the rows of ``benchmarks.bench_tabular_fit``: the
default, then the FT-Transformer with its number of epochs and with TIMES (10) as many, patience likewise, on THREADS
(2) threads. It prints seconds and the PCC on 20,000 other rows (of the default on 4,000 of them: it predicts slowly).
With TIMES 0 the default alone, two minutes of CPU; the others take half an hour.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch

from benchmarks.bench_tabular_fit import COLUMNS, ROWS, Floats, table
from excora import TabularRegressor

SOME = 4000


def line(name: str, model: Any, rows: tuple[Floats, Floats], new: tuple[Floats, Floats]) -> str:
    """Seconds of a fit and PCC on other rows."""
    start, begun = time.perf_counter(), time.process_time()
    model.fit(*rows)
    seconds, cpu = time.perf_counter() - start, time.process_time() - begun
    pcc = np.corrcoef(model.predict(new[0]), new[1])[0, 1]
    return f"{name}: {seconds:.0f} s ({cpu:.0f} of CPU), PCC {pcc:.4f}"


def main(times: int = 10, threads: int = 2, rows: int = ROWS) -> None:
    torch.set_num_threads(threads)
    x, y, _ = table(rows, seed=0)
    new, label, true = table(ROWS, seed=1)
    print(f"{rows:,} x {COLUMNS}, {threads} threads; the true function has PCC {np.corrcoef(true, label)[0, 1]:.4f}")
    default = TabularRegressor(random_state=0)
    print(line("default", default, (x, y), (new[:SOME], label[:SOME])), default.network_.carried()[1], flush=True)
    model = TabularRegressor(model="ft-transformer", random_state=0)
    for factor in (1, times) if times else ():
        if factor > 1:
            usual = model.setup_.recipe
            model.set_params(epochs=factor * usual.epochs, patience=factor * usual.patience)
        found = line(f"FT-Transformer, {factor} x its epochs", model, (x, y), (new, label))
        print(f"{found}, epoch {model.best_epoch_ + 1} of {model.n_iter_}", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
