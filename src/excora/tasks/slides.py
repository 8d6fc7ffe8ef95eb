"""Slides whose genes are planted: a smooth field over the tissue shows in the patches of every spot, with noise.

    field    u(p) ~ N(0, 1) over the spots of a slide, covariance exp(-|p - q|^2 / (2 length^2)), in pitches
    patches  h_i = u a + noise n_i,  i = 1 ... elements,  a a direction, n_i ~ N(0, I)
    gene     y = (u + rest e) / sqrt(1 + rest^2),  e ~ N(0, 1)

A spot's own patches give u up to noise / sqrt(elements); the spots around it give more, as the field is smooth. Both
answers are known. :meth:`SlideTask.write` makes .h5ad files with pictures and patch features of it.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import InputError, MissingExtraError
from excora.tasks import tasks
from excora.tasks.base import Task, orthonormal_pair

Array = NDArray[np.float64]
#: Pixels from spot to spot, and of the white rim of a picture.
PITCH, RIM = 16, 24
#: The gene that is planted; the others are noise.
PLANTED = "PLANTED"


@tasks.named("slides")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SlideTask(Task):
    """One setting; a slide has ``rows`` x ``columns`` spots.

    >>> task = SlideTask()
    >>> patches, gene = task.sample(4, seed=0)
    >>> patches.shape, round(task.bayes_pcc, 3), round(task.slide_pcc, 3)
    (torch.Size([4, 4, 8]), 0.632, 0.837)
    """

    says: ClassVar[str] = "spots of slides whose gene a smooth field gives away, in their patches and around them"
    rows: int = 12
    columns: int = 9
    elements: int = 4
    dim: int = 8
    noise: float = 2.0
    rest: float = 0.5
    length: float = 2.5
    genes: int = 4

    def _heard(self, noise: float) -> float:
        """Correlation of the gene with u that is known up to ``noise``."""
        return 1.0 / math.sqrt((1.0 + self.rest**2) * (1.0 + noise**2))

    @property
    def bayes_pcc(self) -> float:
        """Best PCC of any function of a spot's own patches: of their mean along a."""
        return self._heard(self.noise / math.sqrt(self.elements))

    @property
    def slide_pcc(self) -> float:
        """Best PCC of any function of all patches of the slide, over the spots of many slides.

        ::

            u_hat = K (K + v I)^-1 z,  v = noise^2 / elements;  var(u_hat_i) = cov(u_hat_i, u_i) = [K (K + v I)^-1 K]_ii
        """
        k = self.covariance()
        explained = np.einsum("ij,ji->i", k, np.linalg.solve(k + self.noise**2 / self.elements * np.eye(len(k)), k))
        return float(np.sqrt(explained.mean() / (1.0 + self.rest**2)))

    def places(self) -> Array:
        """(spots, 2) column and row of each, in pitches."""
        row, column = np.divmod(np.arange(self.rows * self.columns), self.columns)
        return np.stack([column, row], 1).astype(float)

    def covariance(self) -> Array:
        """Of the field, (spots, spots)."""
        apart = self.places()[:, None] - self.places()[None]
        return np.exp(-np.square(apart).sum(2) / (2 * self.length**2))

    def direction(self) -> Tensor:
        """a (dim,)."""
        return orthonormal_pair(self.dim, 0)[0]

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Patches (bags, elements, dim) of spots of slides of their own, and the gene (bags,)."""
        generator = torch.Generator().manual_seed(seed)
        field = torch.randn(bags, generator=generator, dtype=torch.float64)
        patches, gene = self._shown(field, generator)
        return patches.to(dtype), gene.to(dtype)

    def _shown(self, field: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Patches and gene of spots with this field (n,)."""
        shape = (len(field), self.elements, self.dim)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        patches = field[:, None, None] * self.direction() + self.noise * noise
        other = torch.randn(len(field), generator=generator, dtype=torch.float64)
        return patches, (field + self.rest * other) / math.sqrt(1.0 + self.rest**2)

    def slide(self, seed: int) -> tuple[Array, Array, Array]:
        """Of one slide the field (spots,), patches (spots, elements, dim) and the planted gene (spots,)."""
        generator = torch.Generator().manual_seed(seed)
        root = np.linalg.cholesky(self.covariance() + 1e-9 * np.eye(self.rows * self.columns))
        field = torch.from_numpy(root) @ torch.randn(len(root), generator=generator, dtype=torch.float64)
        patches, gene = self._shown(field, generator)
        return field.numpy(), patches.numpy(), gene.numpy()

    def write(self, folder: str | Path, *, slides: int = 5, seed: int = 0) -> Path:
        """slideN.h5ad with expression and picture, and features/slideN.h5 with the patches; the folder."""
        try:
            import anndata
            import h5py
            import pandas as pd
        except ModuleNotFoundError as error:
            raise MissingExtraError(str(error.name), "spatial") from error
        folder = Path(folder)
        if slides < 1:
            raise InputError(f"slides must be 1 or more, got {slides}")
        (folder / "features").mkdir(parents=True, exist_ok=True)
        for number in range(slides):
            field, patches, gene = self.slide(1000 * seed + number)
            name, n = f"slide{number}", len(field)
            noise = np.random.default_rng([seed, number]).normal(size=(n, self.genes - 1))
            codes = [f"{name}-{k:04d}" for k in range(n)]
            names = [PLANTED, *(f"NOISE{k}" for k in range(1, self.genes))]
            # Not whole numbers: expression that somebody has scaled, and that is predicted as it is.
            values = 8.0 + np.column_stack([gene, noise])
            spots = pd.DataFrame({"patient": f"patient{number}"}, index=codes)
            made = anndata.AnnData(values.astype(np.float32), spots, pd.DataFrame(index=names))
            made.obsm["spatial"] = RIM + PITCH * (self.places() + 0.5)
            picture = {"images": {"hires": self.picture(field)}, "scalefactors": {"tissue_hires_scalef": 1.0}}
            made.uns["spatial"] = {name: picture}
            made.write_h5ad(folder / f"{name}.h5ad")
            with h5py.File(folder / "features" / f"{name}.h5", "w") as file:
                file["features"], file["grid"] = patches.mean(1).astype(np.float32), patches.astype(np.float32)
                file["coords"], file["barcodes"] = made.obsm["spatial"], [code.encode() for code in codes]
        return folder

    def picture(self, field: Array) -> NDArray[np.uint8]:
        """(height, width, 3): a square a spot, the redder the larger the field; white around it."""
        level = np.clip(127 + 40 * field, 0, 255).reshape(self.rows, self.columns)
        cells: Any = np.stack([level, np.full_like(level, 90.0), 255 - level], 2).astype(np.uint8)
        tissue = cells.repeat(PITCH, 0).repeat(PITCH, 1)
        return np.pad(tissue, ((RIM, RIM), (RIM, RIM), (0, 0)), constant_values=255)
