"""Predictions as .h5ad: anndata reads them, and so do we."""

from __future__ import annotations

import anndata
import numpy as np
import pytest

from excora.data import sources
from excora.data.reading import read
from excora.errors import InputError


@pytest.fixture
def data(folder):
    return read([folder / "s0.h5ad", folder / "s1.h5ad"], features=folder / "features", target=["ERBB2", "KRT8"])


def test_there_and_back(data, tmp_path):
    layers = {"prediction": data.target + 1, "target": data.target, "outside": np.arange(40)}
    sources["spatial"].write(tmp_path / "out" / "p.h5ad", data, data.targets, layers)
    found = anndata.read_h5ad(tmp_path / "out" / "p.h5ad")
    assert found.var_names.tolist() == ["ERBB2", "KRT8"]
    assert found.obs_names[0] == "S0000-1"
    np.testing.assert_allclose(found.layers["prediction"], data.target + 1, rtol=1e-6)
    np.testing.assert_allclose(found.X, data.target + 1, rtol=1e-6)
    np.testing.assert_array_equal(found.obs["outside"], np.arange(40))
    np.testing.assert_array_equal(found.obsm["spatial"], data.content.coords)
    again = read(tmp_path / "out" / "p.h5ad")
    assert [slide.name for slide in again.content.slides] == ["p:s0", "p:s1"]
    np.testing.assert_array_equal(again.content.slides[1].picture.pixels, data.content.slides[1].picture.pixels)


def test_no_other_format_and_nothing_half(data, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"\.csv, \.parquet or \.h5ad"):
        sources["spatial"].write(tmp_path / "p.txt", data, data.targets, {"prediction": data.target})
    with pytest.raises(InputError, match=r"written as \.csv or \.parquet"):
        sources["table"].write(tmp_path / "p.h5ad", data, data.targets, {})

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(anndata.AnnData, "write_h5ad", fail)
    with pytest.raises(OSError, match="full"):
        sources["spatial"].write(tmp_path / "p.h5ad", data, data.targets, {"prediction": data.target})
    assert list(tmp_path.iterdir()) == []


def test_slides_of_one_array_share_barcodes(data, tmp_path):
    for slide in data.content.slides:
        slide.barcodes[:] = data.content.slides[0].barcodes
    sources["spatial"].write(tmp_path / "p.h5ad", data, data.targets, {"prediction": data.target})
    names = anndata.read_h5ad(tmp_path / "p.h5ad").obs_names
    assert names[0] == "s0/S0000-1"
    assert names.is_unique
