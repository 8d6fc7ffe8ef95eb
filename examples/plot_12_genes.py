"""
Genes on a slide that was not seen
==================================

Four small slides: spots with patch features, and counts of two genes, of which one follows a tumour. The file of each is an ``.h5ad``, as scanpy writes it; ``fit`` holds whole
slides out, and ``predict`` gives every spot of a new one its genes, which are drawn where they lie. The slides are made up; the calls are those for real ones.
"""

import tempfile
from pathlib import Path

import anndata
import h5py
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from excora import Settings, fit, predict

folder = Path(tempfile.mkdtemp())
(folder / "features").mkdir()


def slide(seed):
    """8 x 8 spots on a grid of 100 pixels; what a patch looks like (8 numbers) tells of the tumour, and noise."""
    rng = np.random.default_rng(seed)
    places = 100.0 * np.stack(np.meshgrid(np.arange(1, 9), np.arange(1, 9)), -1).reshape(-1, 2)
    tumour = np.exp(-(((places - rng.uniform(250, 650, size=2)) / 200) ** 2).sum(1))
    features = 0.5 * rng.normal(size=(64, 8)).astype(np.float32)
    features[:, 0] += 3 * tumour
    counts = rng.poisson(np.stack([2 + 40 * tumour, np.full(64, 30.0)], 1)).astype(np.float32)
    names = [f"spot{k}" for k in range(64)]
    table = anndata.AnnData(counts, obs=pd.DataFrame(index=names), var=pd.DataFrame(index=["TUMOUR", "HOUSE"]))
    table.obsm["spatial"] = places
    table.write_h5ad(folder / f"s{seed}.h5ad")
    with h5py.File(folder / "features" / f"s{seed}.h5", "w") as file:
        file["features"], file["coords"], file["barcodes"] = features, places, names
    return places, tumour


slides = [slide(seed) for seed in range(5)]
training = [folder / f"s{seed}.h5ad" for seed in range(4)]
settings = Settings("spots", epochs=15, dim=8, neighbours=4, batch_size=16, learning_rate=0.01)
run = fit(
    training,
    output=folder / "run",
    settings=settings,
    target=["TUMOUR"],
    features=folder / "features",
    progress=False,
    baselines=False,
)
found = predict(run, folder / "s4.h5ad", features=folder / "features")
predicted = found.frame["prediction"].to_numpy()
places, tumour = slides[4]
pcc = np.corrcoef(predicted, tumour)[0, 1]
print(f"a new slide: PCC of the predicted gene with the planted tumour {pcc:.3f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for axis, (title, value) in zip(axes, {"planted tumour": tumour, "predicted TUMOUR": predicted}.items(), strict=True):
    figure.colorbar(axis.scatter(*places.T, c=value, s=120), ax=axis)
    axis.set(title=title, aspect="equal")
axes[0].invert_yaxis()
plt.show()

assert pcc > 0.6
