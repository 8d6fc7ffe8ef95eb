"""What a fit of ``TabularRegressor`` costs and reaches on 20,000 x 30 rows or more: the default, the FT-Transformer.

``python -m checks.tabular_budget [TIMES [THREADS [ROWS]]] [--draw N] [--seconds S]`` fits on the rows of
``benchmarks.bench_tabular_fit``: the default, then the FT-Transformer with its number of epochs and with TIMES (10) as
many, patience likewise, on THREADS (2) threads. It prints seconds and the PCC on 20,000 other rows (of the default on
4,000 of them: it predicts slowly), of the default also what it says before and of its stack, and the most memory that
was taken. LightGBM beside it (up to 20,000 rows) stops by a fifth of them, with its usual step of 0.1 and with 0.03.
With TIMES 0 these alone, two minutes of CPU; the FT-Transformers take half an hour. Draw 0 is the one that the default
was designed on, with seeds 5 and 6; draw N has the seeds 10 N and 10 N + 1.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import lightgbm
import numpy as np
import torch

from benchmarks.bench_tabular_fit import COLUMNS, ROWS, Floats, table
from excora import TabularRegressor
from excora.training.progress import patiently

SOME = 4000
Rows = tuple[Floats, Floats]


def line(name: str, model: Any, rows: Rows, new: Rows) -> str:
    """Seconds of a fit and PCC on other rows."""
    start, begun = time.perf_counter(), time.process_time()
    model.fit(*rows)
    seconds, cpu = time.perf_counter() - start, time.process_time() - begun
    begun = time.process_time()
    pcc = np.corrcoef(model.predict(new[0]), new[1])[0, 1]
    asked = 1e3 * (time.process_time() - begun) / len(new[0])
    return f"{name}: {seconds:.0f} s ({cpu:.0f} of CPU), PCC {pcc:.4f}; {asked:.1f} CPU ms a prediction"


class Trees:
    """LightGBM that stops early, by a fifth of the rows."""

    def __init__(self, rate: float, threads: int) -> None:
        self.given = {"learning_rate": rate, "num_threads": threads, "seed": 0, "verbose": -1}

    def fit(self, x: Floats, y: Floats) -> None:
        held = np.random.default_rng(0).permutation(len(x)) % 5 == 0
        seen, asked = (lightgbm.Dataset(x[part], y[part]) for part in (~held, held))
        stop = [lightgbm.early_stopping(50, verbose=False)]
        self.model = lightgbm.train(self.given, seen, 5000, valid_sets=[asked], callbacks=stop)

    def predict(self, x: Floats) -> Any:
        return self.model.predict(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, usual in (("times", 10), ("threads", 2), ("rows", ROWS)):
        parser.add_argument(name, nargs="?", type=int, default=usual)
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="of the default, for a machine that has other things to do")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    x, y, _ = table(asked.rows, seed=10 * asked.draw)
    new, label, true = table(ROWS, seed=10 * asked.draw + 1)
    best = np.corrcoef(true[:SOME], label[:SOME])[0, 1]
    print(
        f"{asked.rows:,} x {COLUMNS}, {asked.threads} threads, draw {asked.draw}; the true function has PCC {best:.4f}"
    )
    some = new[:SOME], label[:SOME]
    for rate in (0.1, 0.03) if asked.rows <= ROWS else ():
        print(line(f"LightGBM, step {rate}", Trees(rate, asked.threads), (x, y), some), flush=True)
    default = TabularRegressor(random_state=0, seconds=asked.seconds)
    with patiently("the default", lambda text: print(text, flush=True), seconds=30.0):
        found = line("default", default, (x, y), some)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{found}; {memory:.1f} GB at most;", default.network_.carried()[1], flush=True)
    model = TabularRegressor(model="ft-transformer", random_state=0)
    for factor in (1, asked.times) if asked.times else ():
        if factor > 1:
            usual = model.setup_.recipe
            model.set_params(epochs=factor * usual.epochs, patience=factor * usual.patience)
        found = line(f"FT-Transformer, {factor} x its epochs", model, (x, y), (new, label))
        print(f"{found}, epoch {model.best_epoch_ + 1} of {model.n_iter_}", flush=True)


if __name__ == "__main__":
    main()
