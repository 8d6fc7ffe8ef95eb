"""From a path to slides."""

from __future__ import annotations

import numpy as np
import pytest

from data.spatial.made import Made, slides
from excora.data.reading import read
from excora.data.roles import Roles
from excora.data.spatial.layouts import is_slides, read_slides
from excora.errors import DataError, InputError


def names(path, **roles):
    problems: list[str] = []
    found = read_slides([path], Roles.of(**roles), problems)
    assert problems == []
    return [slide.name for slide in found]


def test_every_layout_gives_the_same_samples(tmp_path):
    made = Made(name="A1")
    made.h5ad(tmp_path / "h5ad" / "A1.h5ad")
    made.visium(tmp_path / "visium" / "A1", full=True)
    made.tables(tmp_path / "tables")
    made.vectors(tmp_path / "features" / "A1.h5")
    with_codes = {"target": ["ERBB2"], "features": tmp_path / "features"}
    codes = np.array([f"{int(x) // 16}x{int(y) // 16}".encode() for x, y in made.coords])
    made.vectors(tmp_path / "tables" / "features" / "A1.h5", barcodes=codes)
    found = [
        read(tmp_path / "h5ad" / "A1.h5ad", **with_codes), read(tmp_path / "h5ad", **with_codes),
        read(tmp_path / "visium" / "A1", **with_codes), read(tmp_path / "visium", **with_codes),
        read(tmp_path / "tables", target=["ERBB2"]),
    ]  # fmt: skip
    for one in found:
        assert one.kind == "spatial"
        np.testing.assert_allclose(one.target, found[0].target)
        np.testing.assert_array_equal(one.content.coords, made.coords)
        assert one.content.slides[0].vectors.width == 6
        np.testing.assert_array_equal(one.content.slides[0].picture.window(24, 24, 16, 16), made.picture[16:32, 16:32])


def test_a_folder_as_hest_has_it(tmp_path):
    Made(name="T1").h5ad(tmp_path / "st" / "T1.h5ad")
    assert names(tmp_path) == ["T1"]
    assert not is_slides(tmp_path / "st" / "nothing")
    (tmp_path / "empty").mkdir()
    assert not is_slides(tmp_path / "empty")


def test_a_table_of_slides(folder, tmp_path):
    table = tmp_path / "slides.csv"
    table.write_text(f"slide,patient,features\ns2,007,{folder}/features/s2.h5\ns0,007,\ns3,008,\n")
    assert names(folder, labels=table) == ["s2", "s0", "s3"]
    data = read(folder, labels=table, group="patient", target="ERBB2")
    assert sorted(set(data.group)) == ["007", "008"]
    for text, message in (("slide\nother\n", "'other' is not there"), ("name\ns0\n", "column 'slide'"),
                          ("slide\ns0\ns0\n", "'s0' is there twice")):  # fmt: skip
        table.write_text(text)
        with pytest.raises(InputError, match=message):
            names(folder, labels=table)


def test_another_picture_by_the_table(tmp_path):
    made = Made(name="a")
    made.h5ad(tmp_path / "a.h5ad")
    from PIL import Image

    Image.fromarray(255 - made.picture).save(tmp_path / "full.png")
    (tmp_path / "slides.csv").write_text("slide,image\na,full.png\n")
    data = read(tmp_path, labels=tmp_path / "slides.csv", target="ERBB2")
    np.testing.assert_array_equal(data.content.slides[0].picture.crop(0, 0, 9, 9), 255 - made.picture[:9, :9])


def test_all_problems_at_once(tmp_path):
    made = Made(name="a")
    made.h5ad(tmp_path / "a.h5ad", coords=made.coords * 20)
    made.counts[2, 2] = np.nan
    made.h5ad(tmp_path / "b.h5ad")
    (tmp_path / "c.h5ad").write_bytes(b"rubbish")
    with pytest.raises(DataError) as error:
        read(tmp_path, target="ERBB3")
    text = str(error.value)
    for part in ("a: 20 of 20 spots lie outside", "got nan for gene 'ERBB2'", "c.h5ad: this is not readable",
                 "gene 'ERBB3' is in none of the slides; did you mean 'ERBB2'?"):  # fmt: skip
        assert part in text
    assert len(error.value.problems) == 4


def test_features_that_are_missing(folder, tmp_path):
    with pytest.raises(DataError, match=r"there is no s0\.h5 with the patch features of slide 's0'"):
        read(folder, features=tmp_path)


def test_several_paths_at_once(folder, tmp_path):
    paths = [folder / "s0.h5ad", folder / "s2.h5ad"]
    data = read(paths, features=folder / "features")
    assert sorted(set(data.content.slide_names)) == ["s0", "s2"]
    with pytest.raises(DataError, match="there is a slide 's0' already"):
        read([paths[0], folder], features=folder / "features")
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="here are no slides"):
        read([paths[0], tmp_path / "a.csv"], features=folder / "features")
    with pytest.raises(DataError, match="table are read from one file or folder, got 2"):
        read([tmp_path / "a.csv", paths[0]], target="y")


def test_features_beside_a_file_are_found_and_those_of_others_left(tmp_path):
    folder = slides(tmp_path, 2)

    def named(path):
        return read_slides([path], Roles.of(), [])[0].vectors.name

    assert named(folder / "s1.h5ad") == str(folder / "features" / "s1.h5")
    (folder / "features" / "s1.h5").unlink()
    assert named(folder / "s1.h5ad") == "s1 (computed)"
    assert named(folder / "s0.h5ad") == str(folder / "features" / "s0.h5")
