""".h5ad files as anndata writes them, and broken ones."""

from __future__ import annotations

import pickle

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_matrix

from data.spatial.made import GENES, Made
from excora.data.spatial.h5ad import read_h5ad
from excora.errors import InputError


@pytest.fixture
def path(made, tmp_path):
    return made.h5ad(tmp_path / "a.h5ad")


def test_what_anndata_wrote(made, path):
    (slide,), meaning = read_h5ad(path)
    assert (slide.name, slide.genes, meaning) == ("a", GENES, {})
    assert slide.barcodes.tolist() == made.barcodes
    np.testing.assert_array_equal(slide.coords, made.coords)
    np.testing.assert_array_equal(slide.counts.toarray(), made.counts)
    np.testing.assert_array_equal(slide.picture.crop(0, 0, 96, 96), made.picture)
    assert slide.about["patient"].tolist() == ["pa"] * 20
    assert not slide.normalised


def test_dense_and_by_column(made, tmp_path):
    for name, change in (("dense", np.asarray), ("columns", csc_matrix)):
        data = made.anndata()
        data.X = change(made.counts)
        data.write_h5ad(tmp_path / f"{name}.h5ad")
        (slide,), _ = read_h5ad(tmp_path / f"{name}.h5ad")
        np.testing.assert_array_equal(slide.counts.toarray(), made.counts)


def test_counts_in_a_layer_come_first(made, tmp_path):
    data = made.anndata()
    data.layers["counts"] = data.X.copy()
    data.X = np.log1p(made.counts) - 1
    data.write_h5ad(tmp_path / "a.h5ad")
    (slide,), _ = read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(slide.counts.toarray(), made.counts)


def test_what_is_normalised_stays_as_it_is(made, tmp_path):
    (slide,), _ = read_h5ad(made.h5ad(tmp_path / "a.h5ad", counts=np.log1p(made.counts)))
    assert slide.normalised
    assert "X holds no whole numbers" in slide.notes[0]


def test_symbols_and_ids(made, tmp_path):
    ids = [f"ENSG{k:011d}" for k in range(5)]
    data = made.anndata(genes=ids)
    data.var["gene_symbols"] = ["ACTB", "ACTB", "ERBB2", "KRT8", "MALAT1"]
    data.write_h5ad(tmp_path / "a.h5ad")
    (slide,), meaning = read_h5ad(tmp_path / "a.h5ad")
    assert slide.genes == ("ACTB", "ACTB-1", "ERBB2", "KRT8", "MALAT1")
    assert meaning["ENSG00000000002"] == "ERBB2"
    data = made.anndata()
    data.var["gene_ids"] = ids
    data.write_h5ad(tmp_path / "b.h5ad")
    (slide,), meaning = read_h5ad(tmp_path / "b.h5ad")
    assert slide.genes == GENES
    assert meaning["ENSG00000000002"] == "ERBB2"


def test_several_slides_in_one_file(tmp_path):
    import anndata

    parts = [Made(k, name=name) for k, name in enumerate("ab")]
    data = anndata.concat([one.anndata() for one in parts])
    data.obs["library_id"] = pd.Categorical(["a"] * 20 + ["b"] * 20)
    data.uns["spatial"] = {one.name: one.anndata().uns["spatial"][one.name] for one in parts}
    data.write_h5ad(tmp_path / "both.h5ad")
    found, _ = read_h5ad(tmp_path / "both.h5ad")
    assert [slide.name for slide in found] == ["both:a", "both:b"]
    for slide, one in zip(found, parts, strict=True):
        np.testing.assert_array_equal(slide.counts.toarray(), one.counts)
        np.testing.assert_array_equal(slide.picture.crop(0, 0, 96, 96), one.picture)
    del data.obs["library_id"]
    data.write_h5ad(tmp_path / "lost.h5ad")
    with pytest.raises(InputError, match="no column of obs says which spot"):
        read_h5ad(tmp_path / "lost.h5ad")


class Bomb:
    """Would leave a mark if anything ran it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_among_strings_of_any_length(path):
    with h5py.File(path, "a") as file:
        file.create_dataset("uns/model", data=[pickle.dumps(5, protocol=2)], dtype=h5py.string_dtype("ascii"))
    with pytest.raises(InputError, match=r"'uns/model' holds a pickled Python object, which is never loaded"):
        read_h5ad(path)


@pytest.mark.parametrize("how", ["opaque", "bytes", "uint8"])
def test_a_pickle_is_refused_and_not_run(path, tmp_path, how):
    bomb = pickle.dumps(Bomb(tmp_path / "mark"))
    with h5py.File(path, "a") as file:
        value = {"opaque": np.void(bomb), "bytes": np.bytes_(bomb), "uint8": np.frombuffer(bomb, np.uint8)}[how]
        file["uns/model"] = value
    with pytest.raises(InputError, match=r"'uns/model' holds a pickled Python object, which is never loaded"):
        read_h5ad(path)
    assert not (tmp_path / "mark").exists()


def damage(path, key, value=None):
    with h5py.File(path, "a") as file:
        del file[key]
        if value is not None:
            file[key] = value


def test_references_in_place_of_counts(path):
    with h5py.File(path, "a") as file:
        del file["X"]
        file.create_dataset("X", (20, 5), h5py.ref_dtype)
    with pytest.raises(InputError, match="'X' holds a pickled Python object"):
        read_h5ad(path)


BROKEN = [
    ("obsm/spatial", None, r"there is no obsm\['spatial'\]"),
    ("obsm/spatial", np.zeros((19, 2)), r"must be \(spots, 2\)"),
    ("obs", None, "'obs' is missing"),
    ("obs", np.zeros(3), "old AnnData"),
    ("X/indices", np.full(3, 7), "damaged"),
    ("X/data", None, "neither an array nor a sparse matrix"),
    ("obs/patient/codes", np.full(20, 9, np.int8), "codes do not fit"),
    ("uns/spatial/a/scalefactors/tissue_hires_scalef", 0.0, "must be above 0"),
]


@pytest.mark.parametrize(
    ("key", "value", "message"), BROKEN, ids=[f"{key} {k}" for k, (key, _, _) in enumerate(BROKEN)]
)
def test_damage_is_named(path, key, value, message):
    damage(path, key, value)
    with pytest.raises(InputError, match=rf"a\.h5ad.*{message}"):
        read_h5ad(path)


def test_links_out_of_the_file(path):
    with h5py.File(path, "a") as file:
        del file["obsm"]
        file["obsm"] = h5py.ExternalLink("other.h5", "/obsm")
    with pytest.raises(InputError, match="link to another place"):
        read_h5ad(path)


def test_a_file_that_is_cut_off(path):
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"a\.h5ad: this is not readable as an \.h5ad"):
        read_h5ad(path)
