"""One slide: places, neighbours, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from data.spatial.made import GENES
from excora.data.spatial.pictures import ArrayPicture
from excora.data.spatial.slide import Slide, check_slide, matrix_of, unique
from excora.errors import InputError


@pytest.fixture
def slide(made):
    return Slide("a", np.array(made.barcodes, object), made.coords, GENES, csr_matrix(made.counts),
                 picture=ArrayPicture(made.picture))  # fmt: skip


def problems(slide):
    found: list[str] = []
    check_slide(slide, found)
    return found


def test_pitch_and_neighbours(slide):
    assert slide.pitch == 16.0
    near = slide.nearest(np.arange(20), 3)
    distance = np.linalg.norm(slide.coords[:, None] - slide.coords[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    taken = np.take_along_axis(distance, near, 1)
    np.testing.assert_allclose(taken, np.sort(distance, 1)[:, :3])
    assert slide.nearest(np.array([0]), 100).shape == (1, 19)


def test_two_spots_in_one_place_are_not_their_own_neighbours(slide):
    twice = replace(slide, coords=np.zeros((20, 2)))
    near = twice.nearest(np.arange(20), 2)
    assert not (near == np.arange(20)[:, None]).any()


def test_a_slide_of_one_spot():
    alone = Slide("a", np.array(["x"], object), np.array([[3.0, 4.0]]))
    assert alone.pitch == 1.0
    assert alone.nearest(np.array([0]), 4).shape == (1, 0)


def test_the_key_is_of_the_picture(slide):
    assert slide.key == replace(slide, name="b").key
    other = replace(slide, picture=ArrayPicture(slide.picture.pixels + 1))
    assert slide.key != other.key
    assert replace(slide, picture=None).key != slide.key


def test_a_sound_slide_has_no_problems(slide):
    assert problems(slide) == []
    small, scale = slide.tissue(48)
    assert small.shape == (48, 48, 3)
    assert scale == 0.5


def changed(slide, place, value):
    counts = slide.counts.toarray().astype(float)
    counts[place] = value
    return replace(slide, counts=csr_matrix(counts))


def test_counts_that_cannot_be(slide):
    for value in (np.nan, -2.0, np.inf):
        (line,) = problems(changed(slide, (3, 2), value))
        assert f"got {value:g} for gene 'ERBB2' in spot 'A003-1' (1 such values)" in line


def test_barcodes_twice(slide):
    codes = slide.barcodes.copy()
    codes[5] = codes[4]
    assert problems(replace(slide, barcodes=codes)) == ["a: 1 barcodes are there more than once, the first is 'A004-1'"]


def test_spots_outside_the_picture(slide):
    low = replace(slide, picture=ArrayPicture(slide.picture.pixels[:50]))
    assert "2 of 20 spots lie outside the image" in problems(low)[0]
    flat = replace(
        slide, coords=slide.coords[:, ::-1] + (0, 20), picture=ArrayPicture(np.zeros((60, 110, 3), np.uint8))
    )
    (line,) = problems(flat)
    assert "x and y look swapped" in line
    (line,) = problems(replace(slide, coords=slide.coords * 10))
    assert "is it a smaller copy (about 9.17 times)" in line
    assert "the image image covers 96 x 96 pixels" in line
    (line,) = problems(replace(slide, coords=slide.coords - 20))
    assert "lie outside the image, the first is 'A000-1' at (-12, -12)" in line


def test_no_spots_and_no_places(slide):
    assert problems(Slide("e", np.array([], object), np.empty((0, 2)))) == ["e: the slide has no spots"]
    coords = slide.coords.copy()
    coords[0, 0] = np.nan
    assert "two finite coordinates" in problems(replace(slide, coords=coords))[0]


def test_names_are_made_unique_as_anndata_does():
    names = ["a", "b", "a", "a-1", "a", "b"]
    with pytest.warns(UserWarning, match="difficult to interpret"):
        wanted = anndata.utils.make_index_unique(pd.Index(names))
    assert list(unique(names)) == list(wanted)


def test_a_damaged_matrix():
    parts = [np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])]
    assert matrix_of("x", parts, (2, 2)).toarray().tolist() == [[1, 0], [0, 2]]
    for place, wrong in (
        (1, np.array([0, 7])),
        (1, np.array([0, -1])),
        (2, np.array([0, 2, 1])),
        (2, np.array([0, 2])),
    ):
        damaged = [*parts[:place], wrong, *parts[place + 1 :]]
        with pytest.raises(InputError, match="damaged"):
            matrix_of("x", damaged, (2, 2))
