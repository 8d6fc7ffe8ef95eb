"""Parts that do not leak."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.spatial.made import Made, slides
from excora.data.reading import read
from excora.data.spatial import check_leak
from excora.data.spatial.groups import MARGIN, blocks, kept_apart
from excora.data.splits import Split, folds, split
from excora.errors import InputError


def test_slides_are_groups(folder):
    data = read(folder)
    assert sorted(set(data.group)) == ["s0", "s1", "s2", "s3"]
    by_patient = read(folder, group="patient")
    assert sorted(set(by_patient.group)) == ["ps0", "ps1", "ps2", "ps3"]
    with pytest.raises(InputError, match="has no 'hospital' to group by"):
        read(folder, group="hospital")


def test_the_same_picture_under_two_names_is_one_group(tmp_path):
    slides(tmp_path, 4)
    made = Made(seed=1, name="copy")
    made.counts += 1
    made.h5ad(tmp_path / "copy.h5ad")
    shutil.copy(tmp_path / "features" / "s1.h5", tmp_path / "features" / "copy.h5")
    made.vectors(tmp_path / "features" / "copy.h5")
    for role in (None, "patient"):
        data = read(tmp_path, group=role)
        assert len(set(data.group[np.isin(data.content.slide_names, ["s1", "copy"])])) == 1
        assert len(set(data.group)) == 4
        assert any("slides copy and s1 show the same picture" in note for note in data.notes)
        for part in folds(data, folds=3):
            check_leak(data, part)
    name = data.content.slide_names
    bad = Split(np.flatnonzero(name == "s1"), np.flatnonzero(name == "s0"), np.flatnonzero(name == "copy"))
    with pytest.raises(InputError, match=r"training and the test part show the same picture \(slides s1 and copy\)"):
        check_leak(data, bad)
    with pytest.warns(UserWarning, match="no prediction of a new slide"):
        check_leak(data, bad, warn=True)


@given(st.integers(4, 400), st.integers(0, 5))
def test_blocks_are_even_and_do_not_overlap(n, seed):
    coords = np.random.default_rng(seed).uniform(size=(n, 2))
    found = blocks(coords)
    sizes = np.bincount(found)
    assert 4 <= len(sizes) <= 16
    assert sizes.max() - sizes.min() <= 2
    for block in range(len(sizes)):
        low, high = coords[found == block].min(0), coords[found == block].max(0)
        inside = ((coords > low) & (coords < high)).all(1)
        assert (found[inside] == block).all()


def test_one_slide_is_cut_with_a_margin(tmp_path):
    data = read(Made(spots=36).h5ad(tmp_path / "a.h5ad"))
    assert len(set(data.group)) == 4
    assert "one slide: blocks of it are held out" in data.notes[-1]
    content = data.content
    before = split(data)
    after = kept_apart(content.slides, content.slide_of, content.spot_of, before)
    assert set(after.train) < set(before.train)
    np.testing.assert_array_equal(after.test, before.test)
    for part, held in ((after.train, [*before.validation, *before.test]), (after.validation, before.test)):
        distance = np.linalg.norm(content.coords[part][:, None] - content.coords[list(held)][None], axis=-1)
        assert distance.min() > MARGIN * 16
    lost = sorted(set(before.train) - set(after.train))
    near = np.linalg.norm(
        content.coords[lost][:, None] - content.coords[[*before.validation, *before.test]][None], axis=-1
    )
    assert (near.min(1) <= MARGIN * 16).all()


def test_whole_slides_need_no_margin(folder):
    data = read(folder)
    parts = split(data)
    for one, other in zip(kept_apart(data.content.slides, data.content.slide_of, data.content.spot_of, parts), parts,
                          strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other)
