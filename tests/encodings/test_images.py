"""The image encoder: its shape, its weights, and that a stranger's file is only tensors."""

from __future__ import annotations

import importlib.util
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from checks.bare_timm import import_timm
from excora.encodings.images import LITE0, EfficientNetLite0, ImageEncoder, SameConv, image_encoder
from excora.errors import InputError


@pytest.fixture(scope="module")
def encoder():
    return image_encoder(side=64)


def test_the_weights_are_those_of_the_package(encoder):
    """3,371,008 parameters and no classifier; a picture of noise is not what a grey one is."""
    assert sum(p.numel() for p in encoder.network.parameters()) == 3_371_008
    windows = np.random.default_rng(0).integers(0, 255, (2, 64, 64, 3)).astype(np.uint8)
    windows[1] = 128
    features, grid = encoder.vectors(windows)
    assert features.shape == (2, 1280)
    assert grid.shape == (2, 16, 1280)
    assert np.abs(features[0] - features[1]).max() > 0.5
    one, _ = encoder.vectors(windows[1:])
    np.testing.assert_allclose(one[0], features[1], atol=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_it_is_the_network_that_timm_has(encoder):
    """The same weights in timm's tf_efficientnet_lite0, whose names differ: an independent oracle."""
    timm = import_timm()
    other = timm.create_model("tf_efficientnet_lite0", num_classes=0, global_pool="").eval()
    ours, theirs = encoder.network.state_dict(), other.state_dict()
    assert len(ours) == len(theirs)
    # Both list stem, blocks in order (each: expand, filter, project), head; timm puts batch norms beside convolutions.
    ours_by = [t for t in ours.values() if t.ndim == 4], [t for t in ours.values() if t.ndim < 4]
    names = [name for name in theirs if theirs[name].ndim == 4], [name for name in theirs if theirs[name].ndim < 4]
    other.load_state_dict({name: t for group, ts in zip(names, ours_by, strict=True)
                           for name, t in zip(group, ts, strict=True)})  # fmt: skip
    x = torch.randn(2, 3, 75, 64)
    with torch.inference_mode():
        torch.testing.assert_close(
            encoder.network.double()(x.double()), other.double()(x.double()), atol=1e-9, rtol=1e-9
        )
        encoder.network.float()


def test_padding_as_tensorflow_has_it():
    conv = SameConv(1, 1, 3, 2, bias=False)
    conv.weight.data.fill_(1.0)
    x = torch.arange(16.0).view(1, 1, 4, 4)
    # 4 pixels, stride 2, kernel 3: nothing before, one after
    assert conv(x)[0, 0].tolist() == [[45.0, 39.0], [66.0, 50.0]]


def test_encoders_of_users(tmp_path):
    found = ImageEncoder(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 5)), "mine", side=8)
    features, grid = found.vectors(np.zeros((2, 8, 8, 3), np.uint8))
    assert features.shape == (2, 5)
    assert grid is None
    with pytest.raises(InputError, match="gives vectors"):
        ImageEncoder(nn.Flatten(0), "flat", side=8)
    assert found.key() != ImageEncoder(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 5)), "mine", side=8).key()


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_a_timm_model_with_a_local_file(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", import_timm())
    network = import_timm().create_model("vit_tiny_patch16_224", num_classes=0)
    torch.save({"state_dict": network.state_dict()}, tmp_path / "vit.pt")
    found = image_encoder("vit_tiny_patch16_224", tmp_path / "vit.pt", side=224)
    assert (found.width, found.has_grid) == (192, False)
    torch.save({"x": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="these are no weights of vit_tiny_patch16_224"):
        image_encoder("vit_tiny_patch16_224", tmp_path / "other.pt")
    with pytest.raises(InputError, match="there is no encoder 'nothing'"):
        image_encoder("nothing", tmp_path / "vit.pt")


def test_a_checkpoint_is_only_tensors(tmp_path):
    with pytest.raises(InputError, match="needs its weights in a local file"):
        image_encoder("resnet50")
    with pytest.raises(InputError, match="no such checkpoint"):
        image_encoder(LITE0, tmp_path / "absent.pt")
    (tmp_path / "bomb.pt").write_bytes(pickle.dumps(print))
    with pytest.raises(InputError, match="not readable as tensors"):
        image_encoder(LITE0, tmp_path / "bomb.pt")
    assert EfficientNetLite0.width == 1280
