"""The command ``features``: a file a slide, which ``fit`` then reads; resume."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from commands import call
from data.spatial.made import Made

from excora.data.reading import read


@pytest.fixture
def folder(tmp_path):
    for k in range(2):
        Made(k, spots=6, name=f"s{k}").h5ad(tmp_path / "slides" / f"s{k}.h5ad")
    return tmp_path / "slides"


def test_a_file_a_slide(folder):
    said = call("features", folder, "--output", folder / "features", "--side", "32")
    assert said.exit_code == 0, said.output
    assert "s1.h5: 6 spots, 1280 features each" in said.output.replace("\n", "")
    with h5py.File(folder / "features" / "s0.h5") as file:
        assert {name: file[name].shape for name in file} == {
            "features": (6, 1280), "grid": (6, 16, 1280), "coords": (6, 2), "barcodes": (6,),
        }  # fmt: skip
        before = np.array(file["features"])
    data = read(folder)
    np.testing.assert_array_equal(data.content.slides[0].vectors.mean(np.arange(6)), before.astype(np.float32))
    again = call("features", folder, "--output", folder / "features", "--side", "32")
    assert again.exit_code == 0, again.output
    other = call("features", folder, "--output", folder / "features", "--side", "64")
    assert "features of another image, window or encoder" in str(other.exception)


def test_what_cannot_be(folder, tmp_path):
    said = call("features", tmp_path, "--output", tmp_path / "f")
    assert "here are no slides" in str(said.exception)
    said = call("features", folder, "--output", tmp_path / "f", "--encoder", "resnet50")
    assert "needs its weights in a local file" in str(said.exception)
