"""How much time and memory does prediction by retrieval take? 100,000 x 30 rows, as many training rows (minutes).

``python -m checks.retrieval_memory [ROWS]`` fits a ``TabularRegressor`` on few rows, gives its network ROWS training
rows to look at (the metric is plain, the search exact), predicts ROWS rows on one thread, and prints seconds and the
peak of the anonymous memory over that before the prediction.
"""

from __future__ import annotations

import sys
import time
from typing import cast

import numpy as np
import torch

from checks.bag_memory import Peak
from excora import TabularRegressor
from excora.models.parts.neighbours import Excluded
from excora.models.parts.retrieval import RetrievalNetwork

COLUMNS, FEW = 30, 500


def regressor(rows: int) -> TabularRegressor:
    """One whose network knows so many training rows."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(FEW, COLUMNS))
    model = TabularRegressor(model="retrieval", metric="plain", epochs=1, random_state=0).fit(x, x[:, 0])
    few = cast(RetrievalNetwork, model.network_)
    network = RetrievalNetwork(few.spec, **few.options | {"context": rows})
    numbers = torch.from_numpy(generator.normal(size=(rows, COLUMNS)).astype(np.float32))
    missing, codes = torch.zeros(rows, COLUMNS, dtype=torch.bool), torch.zeros(rows, 0, dtype=torch.long)
    table = {"numeric": numbers, "missing": missing, "codes": codes}
    network.remember(table, numbers[:, :1], Excluded(network.columns(table)))
    model.network_ = network.eval()
    return model


def main(rows: int) -> None:
    torch.set_num_threads(1)
    model = regressor(rows)
    x = np.random.default_rng(1).normal(size=(rows, COLUMNS))
    peak, start, begun = Peak(), time.monotonic(), time.process_time()
    peak.start()
    model.predict(x)
    seconds, cpu = time.monotonic() - start, time.process_time() - begun
    print(f"{rows:,} x {COLUMNS} rows, as many training rows: {seconds:.0f} s, {cpu:.0f} of CPU")
    print(f"peak anonymous memory {peak.peak / 1e6:.0f} MB, {peak.start_bytes / 1e6:.0f} MB of it before")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] or ["100000"]))
