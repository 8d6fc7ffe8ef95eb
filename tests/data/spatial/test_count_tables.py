"""Folders of tables as her2st has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from data.spatial.made import Made
from excora.data.spatial.count_tables import is_tables, names_of, read_tables
from excora.errors import InputError


@pytest.fixture
def path(tmp_path):
    for k, name in enumerate(("A1", "B2")):
        Made(k, name=name).tables(tmp_path)
    return tmp_path


def test_a_slide(path):
    assert is_tables(path)
    assert list(names_of(path)) == ["A1", "B2"]
    made, slide = Made(1, name="B2"), read_tables(path, "B2")
    np.testing.assert_array_equal(slide.coords, made.coords)
    np.testing.assert_array_equal(slide.counts.toarray(), made.counts)
    np.testing.assert_array_equal(slide.picture.crop(0, 0, 96, 96), made.picture)
    assert (slide.about, slide.complete, slide.barcodes[1]) == ({"patient": "B"}, False, "1x0")


def test_spots_without_a_place_are_left_out(path):
    file = path / "ST-spotfiles" / "A1_selection.tsv"
    frame = pd.read_csv(file, sep="\t")
    frame.loc[3, "selected"] = 0
    frame.to_csv(file, sep="\t", index=False)
    slide = read_tables(path, "A1")
    assert len(slide) == 19
    assert slide.notes == ("A1: 1 of 20 spots have no place and are left out",)


def test_damage_is_named(path):
    counts = path / "ST-cnts" / "A1.tsv"
    (path / "ST-cnts" / "A1.tsv.gz").unlink()
    texts = {"\tG\n0x0\tmany\n": "column 'G' holds other things", "": "not readable", "\tG\n": "empty"}
    for text, message in (texts | {"\tG\n9x9\t1\n": "none of its 1 spots"}).items():
        counts.write_text(text)
        with pytest.raises(InputError, match=message):
            read_tables(path, "A1")
    (path / "ST-spotfiles" / "B2_selection.tsv").write_text("x\ty\n1\t2\n")
    with pytest.raises(InputError, match="no column 'pixel_x'"):
        read_tables(path, "B2")
    (path / "ST-spotfiles" / "B2_selection.tsv").unlink()
    with pytest.raises(InputError, match="pixel coordinates of slide 'B2'"):
        read_tables(path, "B2")


def test_two_pictures_of_one_slide(path):
    folder = path / "ST-imgs" / "A" / "A1"
    (folder / "more.png").write_bytes((folder / "he.png").read_bytes())
    with pytest.raises(InputError, match="slide 'A1' has 2 images"):
        read_tables(path, "A1")
    assert read_tables(path, "A1", folder / "he.png").picture.size == (96, 96)
