"""Predictions of slides as .h5ad, for scanpy and squidpy."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from excora.data.spatial.content import SpatialSet
from excora.errors import MissingExtraError

#: Pixels of the picture that is written along, at most, in each direction.
PICTURE = 1200


def write_h5ad(path: Path, content: SpatialSet, genes: tuple[str, ...], layers: Mapping[str, Any]) -> None:
    """Spots x genes: X and the layer ``prediction`` are what was predicted, the layer ``target`` what was measured.

    Columns a spot among ``layers`` become columns of ``obs``. ``obsm["spatial"]`` are the places, ``uns["spatial"]``
    the pictures, small, with their scale: squidpy draws them. The file is written whole or not at all.
    """
    try:
        import anndata
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "spatial") from error
    names = [str(content.slides[s].barcodes[k]) for s, k in zip(content.slide_of, content.spot_of, strict=True)]
    if len(set(names)) != len(names):  # slides of one array share their barcodes
        names = [f"{slide}/{name}" for slide, name in zip(content.slide_names, names, strict=True)]
    obs = {"library_id": pd.Categorical(content.slide_names.astype(str))}
    obs |= {name: values for name, values in layers.items() if np.ndim(values) == 1}
    found = anndata.AnnData(
        np.asarray(layers["prediction"], np.float32), pd.DataFrame(obs, index=names), pd.DataFrame(index=list(genes))
    )
    for name, values in layers.items():
        if np.ndim(values) == 2:
            found.layers[name] = np.asarray(values, np.float32)
    found.obsm["spatial"] = content.coords
    found.uns["spatial"] = {content.slides[number].name: _picture(content, number) for number, _ in content.where()}
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        found.write_h5ad(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _picture(content: SpatialSet, number: int) -> dict[str, Any]:
    slide = content.slides[number]
    factors: dict[str, float] = {"spot_diameter_fullres": 0.55 * slide.pitch}  # of Visium: 55 of 100 micrometres
    tissue = slide.tissue(PICTURE)
    if tissue is None:
        return {"images": {}, "scalefactors": factors}
    return {"images": {"hires": tissue[0]}, "scalefactors": factors | {"tissue_hires_scalef": tissue[1]}}
