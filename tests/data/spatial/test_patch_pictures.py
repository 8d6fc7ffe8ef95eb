"""Patches as HEST has them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from excora.data.reading import read
from excora.data.spatial.patch_pictures import PatchPicture
from excora.errors import DataError, InputError


def write(made, path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = np.stack([made.picture[int(y) - 8 : int(y) + 8, int(x) - 8 : int(x) + 8] for x, y in made.coords])
    order = np.arange(len(cut))[::-1]
    content = {
        "img": cut[order], "coords": made.coords[order] - 8,
        "barcode": np.array([[made.barcodes[k].encode()] for k in order]),
    } | changes  # fmt: skip
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            file[name] = values
    return path


def test_a_folder_as_hest_has_it(made, tmp_path):
    made.h5ad(tmp_path / "st" / "a.h5ad")
    write(made, tmp_path / "patches" / "a.h5")
    slide = read(tmp_path).content.slides[0]
    assert isinstance(slide.picture, PatchPicture)
    np.testing.assert_array_equal(slide.picture.window(24, 8, 99, 16), made.picture[:16, 16:32])
    small, scale = slide.tissue(96)
    assert scale == pytest.approx(96 / 104)
    assert small.shape[1] == 96
    with pytest.raises(InputError, match=r"no patch at \(30, 8\)"):
        slide.picture.window(30, 8, 16, 16)


def test_what_does_not_fit(made, tmp_path):
    made.h5ad(tmp_path / "st" / "a.h5ad")
    path = tmp_path / "patches" / "a.h5"
    codes = np.array([f"x{k}".encode() for k in range(20)])
    for changes, message in (({"barcode": codes}, "20 of 20 spots have no patch"),
                             ({"img": np.zeros((20, 4, 4, 3))}, "'img' must be uint8")):  # fmt: skip
        write(made, path, **changes)
        with pytest.raises(DataError, match=message):
            read(tmp_path)
    with h5py.File(path, "w") as file:
        file["other"] = 1
    with pytest.raises(DataError, match="expected 'img' and 'barcode', got other"):
        read(tmp_path)
