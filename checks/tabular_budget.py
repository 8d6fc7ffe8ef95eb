"""Is the default budget of ``TabularRegressor`` enough? 20,000 x 30 rows, and the same with ten times the epochs.

``python -m checks.tabular_budget [TIMES [THREADS]]`` fits on the rows of ``benchmarks.bench_tabular_fit``, with the
default number of epochs and TIMES (10) as many, patience likewise, on THREADS (2) threads, and prints seconds and the
PCC on 20,000 other rows. An hour of CPU with the FT-Transformer.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from benchmarks.bench_tabular_fit import COLUMNS, ROWS, table
from excora import TabularRegressor


def main(times: int = 10, threads: int = 2) -> None:
    torch.set_num_threads(threads)
    x, y, _ = table(ROWS, seed=0)
    new, label, true = table(ROWS, seed=1)
    print(f"{ROWS:,} x {COLUMNS}, {threads} threads; the true function has PCC {np.corrcoef(true, label)[0, 1]:.4f}")
    model = TabularRegressor(random_state=0)
    for factor in (1, times):
        if factor > 1:
            usual = model.setup_.recipe
            model.set_params(epochs=factor * usual.epochs, patience=factor * usual.patience)
        start, begun = time.perf_counter(), time.process_time()
        model.fit(x, y)
        seconds, cpu = time.perf_counter() - start, time.process_time() - begun
        pcc = np.corrcoef(model.predict(new), label)[0, 1]
        epochs = f"epoch {model.best_epoch_ + 1} of {model.n_iter_}"
        print(f"{factor:2d} x the epochs: {seconds:.0f} s ({cpu:.0f} of CPU), {epochs}, PCC {pcc:.4f}", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
