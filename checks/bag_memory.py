"""How much memory does training on bags in files take? 10,000 bags of 50 to 500 x 256 in .h5: 2.8 GB (some minutes).

``python -m checks.bag_memory [BAGS] [WORKERS]`` writes the files to a temporary folder, runs `fit` for an epoch and
prints the peak of the anonymous memory of all its processes: what the program holds, without what the system caches.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

from excora.application import fit
from excora.settings import Settings

WIDTH = 256


def write(folder: Path, bags: int) -> Path:
    """The files of features, and the table of labels."""
    import h5py

    generator = np.random.default_rng(0)
    rows = ["bag,y"]
    for k in range(bags):
        values = generator.standard_normal((generator.integers(50, 501), WIDTH), dtype=np.float32)
        with h5py.File(folder / "features" / f"b{k}.h5", "w") as file:
            file["features"] = values
        rows.append(f"b{k},{values[:, 0].max() + generator.normal():.6f}")
    labels = folder / "labels.csv"
    labels.write_text("\n".join(rows) + "\n")
    return labels


def anonymous(pid: int) -> int:
    """Bytes of anonymous memory of a process and its children; 0 for one that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
    return own + sum(anonymous(int(child)) for child in children)


class Peak(threading.Thread):
    """Looks every 20 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.peak = anonymous(os.getpid())

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, anonymous(os.getpid()))
            time.sleep(0.02)


def main(bags: int, workers: int) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "features").mkdir()
        labels = write(folder, bags)
        size = sum(file.stat().st_size for file in (folder / "features").iterdir())
        peak, start = Peak(), time.monotonic()
        peak.start()
        settings = Settings(epochs=1, workers=workers)
        run = fit(folder / "features", labels=labels, target="y", output=folder / "run", settings=settings)
        seconds = time.monotonic() - start
        peak.peak = max(peak.peak, anonymous(os.getpid()))
    print(f"{bags} bags, {size / 1e9:.2f} GB in files, {workers} workers: an epoch of fit in {seconds:.0f} s")
    print(f"peak anonymous memory {peak.peak / 1e9:.2f} GB, {peak.start_bytes / 1e9:.2f} GB of it before")
    print(f"test PCC {run.results['test']['y']['pcc']:.3f}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(10_000, 0)[len(given) :])
