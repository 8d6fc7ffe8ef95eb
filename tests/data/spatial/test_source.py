"""The source of slides: genes are chosen by the training part, checks and the summary."""

from __future__ import annotations

import numpy as np
import pytest

from data.spatial.made import GENES, Made
from excora.data import sources
from excora.data.reading import read
from excora.data.spatial.source import together
from excora.data.validation import validate
from excora.errors import DataError, InputError

SOURCE = sources["spatial"]


def test_genes_are_chosen_by_training_slides(folder):
    data = read(folder, genes="2")
    assert data.target is None
    assert data.targets == ()
    train = np.flatnonzero(data.content.slide_of == 0)
    known = SOURCE.targeted(data, train)
    assert known.targets == ("ERBB2", "MALAT1")
    assert known.target.shape == (80, 2)
    assert known.notes[-1] == "2 genes, those of the largest mean count over the training slides"
    assert SOURCE.targeted(known, train) is known
    every = SOURCE.targeted(read(folder, genes="all:3"), train)
    assert every.notes[-1] == "3 genes, those of the largest mean count over all slides"


def test_named_genes(folder, tmp_path):
    (tmp_path / "list.txt").write_text("KRT8\nCD3E\n")
    assert read(folder, genes=tmp_path / "list.txt").targets == ("KRT8", "CD3E")
    data = read(folder, target=["KRT8"], expression="minmax")
    train = np.flatnonzero(data.content.slide_of == 0)
    known = SOURCE.targeted(data, train)
    assert known.target[train].min() == pytest.approx(0, abs=1e-6)
    assert known.target[train].max() == pytest.approx(1, abs=1e-6)
    with pytest.raises(InputError, match="expression= is log1p or minmax"):
        read(folder, expression="raw")


def test_data_to_predict_need_no_counts(tmp_path):
    import h5py

    path = Made().h5ad(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        del file["X"]
    new = read(path, labelled=False)
    assert (len(new), new.target, new.group) == (20, None, None)
    with pytest.raises(DataError, match="slide 'a' has no counts to learn from"):
        read(path)


def test_validate(folder):
    seen: list[tuple[int, int]] = []
    summary = validate(folder, genes="3", progress=lambda done, total: seen.append((done, total)))
    assert summary.kind == "spatial"
    assert summary.split == {"train": 40, "validation": 20, "test": 20}
    assert seen[-1] == (80, 80)
    text = str(summary)
    assert "4 (s0 20, s1 20, s2 20, s3 20)" in text
    assert f"{len(GENES)} in the union" in text


def test_a_vector_that_is_broken_is_found_by_validate(tmp_path):
    made = Made()
    made.features[7] = np.nan
    made.h5ad(tmp_path / "a.h5ad")
    made.vectors(tmp_path / "features" / "a.h5", grid=None)
    with pytest.raises(DataError, match="not a finite number"):
        validate(tmp_path, genes="2")


def test_slides_of_one_name(tmp_path):
    Made(0).h5ad(tmp_path / "a.h5ad")
    Made(1).visium(tmp_path / "b")
    assert len(read(tmp_path)) == 40


def test_roles_that_have_no_meaning(folder):
    with pytest.raises(DataError, match="weight= has no meaning here"):
        read(folder, weight="w")


def test_what_is_said_of_several_slides_is_said_once():
    assert together(["a: no counts", "b: no picture", "c: no counts", "alone"]) == [
        "a and 1 more: no counts", "b: no picture", "alone",
    ]  # fmt: skip
