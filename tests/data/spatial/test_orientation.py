"""Spots on and beside the tissue."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from excora.data.reading import read
from excora.data.spatial.orientation import covered, orientation_note
from excora.data.spatial.pictures import ArrayPicture
from excora.data.spatial.slide import Slide
from excora.errors import InputError
from excora.tasks.slides import SlideTask


def slide(background: int = 255, side: int = 128) -> Slide:
    """A square picture with tissue in its upper half, and spots there."""
    pixels = np.full((side, side, 3), background, np.uint8)
    pixels[12:60, 12:116] = (170, 80, 120)
    coords = np.array([[x, y] for y in range(20, 60, 8) for x in range(20, 116, 8)], float)
    codes = np.array([str(k) for k in range(len(coords))], object)
    return Slide("s", codes, coords, picture=ArrayPicture(pixels))


@pytest.mark.parametrize("background", [255, 240, 0])
def test_swapped_coordinates_are_noticed(background):
    good = slide(background)
    assert orientation_note(good) == ()
    (note,) = orientation_note(dataclasses.replace(good, coords=good.coords[:, ::-1].copy()))
    assert note.startswith("s: ")
    assert "would with x and y swapped" in note
    assert "100% would" in note


def test_the_share_of_covered_places():
    made = slide()
    assert covered(made.picture, made.coords, 8.0) == 1.0
    assert covered(made.picture, np.array([[64.0, 30.0], [64.0, 100.0]]), 8.0) == 0.5
    small = ArrayPicture(made.picture.pixels[::2, ::2], scale=0.5)
    assert covered(small, made.coords, 8.0) == 1.0


def test_nothing_is_said_where_nothing_can_be():
    made = slide()
    turned = dataclasses.replace(made, coords=made.coords[:, ::-1].copy())
    assert orientation_note(dataclasses.replace(turned, picture=None)) == ()
    few = dataclasses.replace(turned, coords=turned.coords[:5], barcodes=turned.barcodes[:5])
    assert orientation_note(few) == ()
    tall = ArrayPicture(np.concatenate([made.picture.pixels[:, :64]] * 2))
    assert orientation_note(dataclasses.replace(made, picture=tall)) == ()  # (y, x) leaves the picture


def test_a_picture_that_cannot_be_read_is_no_problem_of_this_check():
    class Broken(ArrayPicture):
        def thumbnail(self, most=1200):  # noqa: ARG002
            raise InputError("damaged")

    made = slide()
    assert orientation_note(dataclasses.replace(made, picture=Broken(made.picture.pixels))) == ()


def test_it_is_a_note_of_the_data(tmp_path):
    import anndata

    task = SlideTask(rows=10, columns=10)
    path = task.write(tmp_path / "a", slides=1) / "slide0.h5ad"
    made = anndata.read_h5ad(path)
    images = made.uns["spatial"]["slide0"]["images"]
    images["hires"] = np.pad(images["hires"], ((0, 128), (128, 0), (0, 0)), constant_values=255)
    made.obsm["spatial"] = made.obsm["spatial"] + np.array([128.0, 0.0])
    made.write_h5ad(tmp_path / "right.h5ad")
    made.obsm["spatial"] = made.obsm["spatial"][:, ::-1].copy()
    made.write_h5ad(tmp_path / "swapped.h5ad")
    assert not [note for note in read(tmp_path / "right.h5ad").notes if "swapped" in note]
    assert [note for note in read(tmp_path / "swapped.h5ad").notes if "x and y swapped" in note]
