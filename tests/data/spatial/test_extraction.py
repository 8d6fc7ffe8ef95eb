"""Features that are computed here: resumed, kept, refused where they are of something else."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from torch import nn

from excora.data.spatial import extraction
from excora.data.spatial.extraction import encoded, extract
from excora.data.spatial.h5ad import read_h5ad
from excora.data.spatial.vectors import read_vectors
from excora.encodings.images import ImageEncoder
from excora.errors import InputError


class Small(nn.Module):
    """Means of patches of 4 pixels."""

    width = 3

    def forward(self, x):
        return nn.functional.avg_pool2d(x, 4)


@pytest.fixture
def slide(made, tmp_path):
    return read_h5ad(made.h5ad(tmp_path / "a.h5ad"))[0][0]


@pytest.fixture
def encoder():
    return ImageEncoder(Small(), "small", side=16, grid=2)


def test_the_file(slide, made, encoder, tmp_path):
    seen = []
    path = extract(slide, encoder, tmp_path / "f" / "a.h5", tell=lambda done, total: seen.append((done, total)))
    assert seen == [(16, 20), (20, 20)]
    found = read_vectors(path, slide.barcodes, slide.coords, slide.pitch)
    wanted = (
        np.stack([made.picture[int(y) - 8 : int(y) + 8, int(x) - 8 : int(x) + 8] for x, y in made.coords]) / 127.5 - 1
    )
    np.testing.assert_allclose(found.mean(np.arange(20)), wanted.mean((1, 2)), atol=1e-3)
    assert found.grid.shape == (20, 4, 3)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["coords"], slide.coords)
        assert file.attrs["field"] == 16.0


def test_it_goes_on_where_it_was_stopped(slide, encoder, tmp_path, monkeypatch):
    whole = extract(slide, encoder, tmp_path / "whole.h5")
    monkeypatch.setattr(extraction, "BATCH", 8)

    def stop(done, total):
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(slide, encoder, tmp_path / "a.h5", tell=stop)
    assert not (tmp_path / "a.h5").exists()
    seen = []
    path = extract(slide, encoder, tmp_path / "a.h5", tell=lambda done, _: seen.append(done))
    assert seen == [16, 20]
    with h5py.File(path) as one, h5py.File(whole) as other:
        np.testing.assert_array_equal(one["grid"], other["grid"])
    assert extract(slide, encoder, path) == path, "what is complete is left"


def test_of_another_window_or_encoder(slide, encoder, tmp_path):
    path = extract(slide, encoder, tmp_path / "a.h5")
    with pytest.raises(InputError, match="features of another image, window or encoder"):
        extract(slide, encoder, path, field=30.0)
    with pytest.raises(InputError, match="has no image"):
        extract(replace(slide, picture=None), encoder, path)


def test_computed_when_asked_for_and_kept(slide, monkeypatch, tmp_path):
    monkeypatch.setenv("EXCORA_CACHE", str(tmp_path / "cache"))
    made = []

    def make():
        made.append(1)
        return ImageEncoder(Small(), "small", side=16, grid=4)

    monkeypatch.setattr(extraction, "image_encoder", make)
    monkeypatch.setattr(extraction, "EfficientNetLite0", Small)
    vectors = encoded(slide)
    assert vectors.width == 3
    assert made == []
    first = vectors.mean(np.arange(20))
    np.testing.assert_array_equal(encoded(slide).mean(np.arange(20)), first)
    assert vectors.take(np.arange(2), grid=True)[0].shape == (32, 3)
    assert made == [1]
    assert torch.isfinite(torch.from_numpy(first)).all()
