"""How much memory does training on slides take? 100,000 spots x 1,024 features from .h5, 250 genes (some minutes).

``python -m checks.spatial_memory [SPOTS] [FEATURES] [GENES]`` writes ten slides to a temporary folder, runs `fit` with
the model "spots" for an epoch and prints the peak of resident memory, mapped files included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from excora.application import fit
from excora.settings import Settings

SLIDES = 10


def write(folder: Path, spots: int, width: int, genes: int) -> int:
    """Ten .h5ad files with their features beside them; the size of these."""
    import anndata
    import h5py
    import pandas as pd

    generator = np.random.default_rng(0)
    mix = generator.normal(size=(8, genes)) / 3
    size = 0
    (folder / "features").mkdir()
    for number in range(SLIDES):
        n = spots // SLIDES
        features = generator.standard_normal((n, width), dtype=np.float32)
        counts = generator.poisson(np.exp(1 + features[:, :8] @ mix)).astype(np.float32)
        names = [f"{number}-{k}" for k in range(n)]
        made = anndata.AnnData(
            counts, pd.DataFrame(index=names), pd.DataFrame(index=[f"G{k:04d}" for k in range(genes)])
        )
        side = int(np.ceil(np.sqrt(n)))
        made.obsm["spatial"] = np.stack(np.divmod(np.arange(n), side), 1) * 100.0
        made.write_h5ad(folder / f"s{number}.h5ad")
        with h5py.File(folder / "features" / f"s{number}.h5", "w") as file:
            file["features"], file["barcodes"] = features.astype(np.float16), [name.encode() for name in names]
        size += (folder / "features" / f"s{number}.h5").stat().st_size
    return size


def peak() -> float:
    """Resident memory of this process at its highest, in bytes, as Linux has counted it since the mark was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024.0 for line in lines if line.startswith("VmHWM"))


def main(spots: int, width: int, genes: int) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write(folder, spots, width, genes)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before, start = peak(), time.monotonic()
        settings = Settings("spots", epochs=1, sees="features", neighbours=0, exemplars=0, batch_size=512)
        run = fit(folder, genes=str(genes), output=folder / "run", settings=settings, baselines=False)
        seconds = time.monotonic() - start
    print(f"{spots:,} spots x {width} features, {size / 1e9:.2f} GB in files, {genes} genes: fit in {seconds:.0f} s")
    print(f"peak resident memory {peak() / 1e9:.2f} GB, {before / 1e9:.2f} GB of it before")
    pcc = [one["pcc"] for one in run.results["test"].values() if isinstance(one, dict) and one.get("pcc") is not None]
    print(f"mean test PCC over {len(pcc)} genes {np.mean(pcc):.3f}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(100_000, 1024, 250)[len(given) :])
