"""Pictures of slides."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import tifffile
from PIL import Image

from excora.data.spatial import pictures
from excora.data.spatial.pictures import ArrayPicture, TiledPicture, hash_of, open_picture
from excora.errors import InputError


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (50, 70, 3)).astype(np.uint8)


def save(pixels, path, **how):
    if path.suffix == ".png":
        Image.fromarray(pixels).save(path)
    else:
        tifffile.imwrite(path, pixels, **how)
    return open_picture(path)


HOW = {"strips.tif": {"rowsperstrip": 16}, "tiles.tif": {"tile": (16, 32)}, "a.png": {}}
HOW["small.tif"] = {"tile": (32, 32), "compression": "zlib"}


@pytest.mark.parametrize("name", HOW)
def test_every_format_gives_the_same_windows(pixels, tmp_path, name):
    picture = save(pixels, tmp_path / name, **HOW[name])
    memory = ArrayPicture(pixels)
    assert picture.size == (70, 50)
    again = pickle.loads(pickle.dumps(picture))
    for x, y in ((35, 25), (0, 0), (69, 49), (3.9, 48.2)):
        for field, side in ((16, 16), (20, 8), (7, 7)):
            wanted = memory.window(x, y, field, side)
            np.testing.assert_array_equal(picture.window(x, y, field, side), wanted)
            np.testing.assert_array_equal(again.window(x, y, field, side), wanted)


def test_a_window_is_centred_and_padded_with_white(pixels):
    picture = ArrayPicture(pixels)
    np.testing.assert_array_equal(picture.window(35, 25, 10, 10), pixels[20:30, 30:40])
    corner = picture.window(0, 0, 10, 10)
    assert (corner[:5] == 255).all()
    assert (corner[:, :5] == 255).all()
    np.testing.assert_array_equal(corner[5:, 5:], pixels[:5, :5])
    assert (picture.crop(100, 100, 103, 102) == 255).all()


def test_a_smaller_copy_shows_the_same_place():
    large = np.zeros((80, 80, 3), np.uint8)
    large[40:, :, 0] = 255
    small = ArrayPicture(large[::4, ::4], scale=0.25)
    np.testing.assert_array_equal(small.window(40, 60, 16, 8), ArrayPicture(large).window(40, 60, 16, 8))


def test_the_thumbnail(pixels, tmp_path):
    for picture in (ArrayPicture(pixels, scale=0.5), save(pixels, tmp_path / "a.png")):
        small, scale = picture.thumbnail(35)
        assert small.shape == (25, 35, 3)
        assert scale == pytest.approx(picture.scale / 2)
    whole, scale = ArrayPicture(pixels).thumbnail(1000)
    assert scale == 1.0
    np.testing.assert_array_equal(whole, pixels)


def test_few_tiles_are_kept(pixels, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "KEPT", 4000)
    picture = save(pixels, tmp_path / "a.tif", tile=(16, 16))
    np.testing.assert_array_equal(picture.crop(0, 0, 70, 50), pixels)
    assert isinstance(picture, TiledPicture)
    assert sum(tile.nbytes for tile in picture._tiles.values()) <= 4000


def test_keys_are_of_content(pixels, tmp_path, monkeypatch):
    save(pixels, tmp_path / "a.png")
    save(pixels, tmp_path / "b.png")
    assert hash_of(tmp_path / "a.png") == hash_of(tmp_path / "b.png")
    assert ArrayPicture(pixels).key() == ArrayPicture(pixels.copy()).key() != ArrayPicture(pixels + 1).key()
    monkeypatch.setattr(pictures, "HASHED", 1024)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes() + b"x")
    assert hash_of(tmp_path / "a.png") != hash_of(tmp_path / "b.png")


def test_grey_transparent_and_floating_pixels():
    grey = np.arange(4, dtype=np.uint8).reshape(2, 2)
    assert ArrayPicture(grey).pixels.shape == (2, 2, 3)
    assert ArrayPicture(np.zeros((2, 2, 4), np.uint8)).pixels.shape == (2, 2, 3)
    assert ArrayPicture(np.full((2, 2, 3), 0.5)).pixels[0, 0].tolist() == [128] * 3
    for wrong in (np.full((2, 2, 3), 7.0), np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2, 3), np.int64)):
        with pytest.raises(InputError, match="pixels must"):
            ArrayPicture(wrong)


def test_what_is_no_picture(tmp_path):
    for name in ("a.png", "a.tif"):
        (tmp_path / name).write_bytes(b"rubbish")
        with pytest.raises(InputError, match=f"{name}: this is not readable"):
            open_picture(tmp_path / name)
    with pytest.raises(InputError, match="no such image"):
        open_picture(tmp_path / "absent.png")
    (tmp_path / "a.doc").write_bytes(b"")
    with pytest.raises(InputError, match="an image ends in"):
        open_picture(tmp_path / "a.doc")
    tifffile.imwrite(tmp_path / "deep.tif", np.zeros((4, 4, 3), np.uint16))
    with pytest.raises(InputError, match="8-bit"):
        open_picture(tmp_path / "deep.tif")
