"""Small slides for the tests: a planted gene in the patch features and in the picture, written in every layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
from PIL import Image

GENES = ("ACTB", "CD3E", "ERBB2", "KRT8", "MALAT1")
SIDE, PITCH = 96, 16


class Made:
    """Spots on a lattice of a 96 x 96 picture, whose red grows with gene ERBB2, as the first feature does."""

    def __init__(self, seed: int = 0, spots: int = 20, name: str = "a") -> None:
        generator = np.random.default_rng(seed)
        lattice = np.array([[x, y] for y in range(8, SIDE, PITCH) for x in range(8, SIDE, PITCH)], float)
        self.name, self.coords = name, lattice[:spots]
        signal = generator.uniform(0, 1, spots)
        self.counts = generator.poisson(3, (spots, len(GENES))).astype(np.float32)
        self.counts[:, 2] = np.round(40 * signal)
        self.counts[:, 4] = 20 + np.arange(spots) % 3
        self.barcodes = [f"{name.upper()}{k:03d}-1" for k in range(spots)]
        self.picture = np.full((SIDE, SIDE, 3), 200, np.uint8)
        for (x, y), s in zip(self.coords.astype(int), signal, strict=True):
            self.picture[y - 8 : y + 8, x - 8 : x + 8] = (int(255 * s), 90, int(generator.integers(80, 120)))
        self.features = generator.normal(size=(spots, 6)).astype(np.float16)
        self.features[:, 0] = signal
        self.grid = (self.features[:, None] + generator.normal(0, 0.1, (spots, 4, 6))).astype(np.float16)

    def anndata(self, *, scale: float = 1.0, **changes: Any) -> Any:
        import anndata
        from scipy.sparse import csr_matrix

        found = anndata.AnnData(
            csr_matrix(changes.get("counts", self.counts)),
            obs=pd.DataFrame({"patient": pd.Categorical([f"p{self.name}"] * len(self.coords))}, index=self.barcodes),
            var=pd.DataFrame(index=list(changes.get("genes", GENES))),
        )
        found.obsm["spatial"] = changes.get("coords", self.coords)
        images = {"hires": self.picture}
        factors = {"tissue_hires_scalef": scale, "spot_diameter_fullres": 10.0}
        found.uns["spatial"] = {self.name: {"images": images, "scalefactors": factors}}
        return found

    def h5ad(self, path: Path, **changes: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.anndata(**changes).write_h5ad(path)
        return path

    def vectors(self, path: Path, **changes: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "features": self.features, "grid": self.grid, "coords": self.coords,
            "barcodes": np.array([code.encode() for code in self.barcodes]),
        } | changes  # fmt: skip
        with h5py.File(path, "w") as file:
            for name, values in content.items():
                if values is not None:
                    file[name] = values
        return path

    def visium(self, folder: Path, *, new: bool = True, full: bool = False) -> Path:
        from scipy.sparse import csr_matrix

        (folder / "spatial").mkdir(parents=True)
        counts = csr_matrix(self.counts)
        with h5py.File(folder / "filtered_feature_bc_matrix.h5", "w") as file:
            for name in ("data", "indices", "indptr"):
                file[f"matrix/{name}"] = getattr(counts, name)
            file["matrix/shape"] = np.array(counts.shape[::-1])
            file["matrix/barcodes"] = [code.encode() for code in self.barcodes]
            file["matrix/features/name"] = [gene.encode() for gene in GENES]
            file["matrix/features/id"] = [f"ENSG{k:011d}".encode() for k in range(len(GENES))]
            file["matrix/features/feature_type"] = [b"Gene Expression"] * len(GENES)
        names = ["barcode", "in_tissue", "array_row", "array_col", "pxl_row_in_fullres", "pxl_col_in_fullres"]
        rows = [[code, 1, int(y) // PITCH, int(x) // PITCH, int(y), int(x)]
                for code, (x, y) in zip(self.barcodes, self.coords, strict=True)]  # fmt: skip
        frame = pd.DataFrame(rows, columns=names)
        place = folder / "spatial" / ("tissue_positions.csv" if new else "tissue_positions_list.csv")
        frame.to_csv(place, index=False, header=new)
        Image.fromarray(self.picture).resize((SIDE // 2, SIDE // 2)).save(folder / "spatial" / "tissue_hires_image.png")
        (folder / "spatial" / "scalefactors_json.json").write_text(json.dumps({"tissue_hires_scalef": 0.5}))
        if full:
            import tifffile

            tifffile.imwrite(folder / "image.tif", self.picture, tile=(32, 32))
        return folder

    def tables(self, folder: Path) -> Path:
        for part in ("ST-cnts", "ST-spotfiles", f"ST-imgs/{self.name[0]}/{self.name}"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        places = [(int(x) // PITCH, int(y) // PITCH) for x, y in self.coords]
        counts = pd.DataFrame(self.counts.astype(int), index=[f"{x}x{y}" for x, y in places], columns=list(GENES))
        counts.loc[:, counts.any()].to_csv(folder / "ST-cnts" / f"{self.name}.tsv.gz", sep="\t")
        spots = pd.DataFrame(places, columns=["x", "y"]).assign(
            pixel_x=self.coords[:, 0], pixel_y=self.coords[:, 1], selected=1
        )
        spots.to_csv(folder / "ST-spotfiles" / f"{self.name}_selection.tsv", sep="\t", index=False)
        Image.fromarray(self.picture).save(folder / f"ST-imgs/{self.name[0]}/{self.name}/he.png")
        return folder


def slides(folder: Path, count: int = 4, **changes: Any) -> Path:
    """A folder of .h5ad files, with patch features beside them."""
    for k in range(count):
        made = Made(seed=k, name=f"s{k}", **changes)
        made.h5ad(folder / f"s{k}.h5ad")
        made.vectors(folder / "features" / f"s{k}.h5")
    return folder
