"""10x Visium folders, old and new."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from data.spatial.made import GENES
from excora.data.spatial.visium import is_visium, read_visium
from excora.errors import InputError


@pytest.mark.parametrize("new", [True, False])
def test_a_folder_of_either_version(made, tmp_path, new):
    folder = made.visium(tmp_path / "v1", new=new)
    assert is_visium(folder)
    slide, meaning = read_visium(folder)
    assert (slide.name, slide.genes, meaning["ENSG00000000002"]) == ("v1", GENES, "ERBB2")
    np.testing.assert_array_equal(slide.coords, made.coords)
    np.testing.assert_array_equal(slide.counts.toarray(), made.counts)
    assert (slide.picture.size, slide.picture.scale) == ((48, 48), 0.5)


def test_the_picture_of_full_resolution_comes_first(made, tmp_path):
    slide, _ = read_visium(made.visium(tmp_path / "v1", full=True))
    np.testing.assert_array_equal(slide.picture.crop(0, 0, 96, 96), made.picture)
    assert slide.picture.scale == 1.0


def test_the_name_of_the_sample_before_the_matrix(made, tmp_path):
    folder = made.visium(tmp_path / "v1")
    (folder / "filtered_feature_bc_matrix.h5").rename(folder / "S1_filtered_feature_bc_matrix.h5")
    assert read_visium(folder)[0].counts.shape == (20, 5)
    assert not is_visium(tmp_path)


def test_proteins_are_no_genes(made, tmp_path):
    folder = made.visium(tmp_path / "v1")
    with h5py.File(folder / "filtered_feature_bc_matrix.h5", "a") as file:
        del file["matrix/features/feature_type"]
        file["matrix/features/feature_type"] = [b"Gene Expression"] * 3 + [b"Antibody Capture"] * 2
    slide, _ = read_visium(folder)
    assert slide.genes == GENES[:3]
    np.testing.assert_array_equal(slide.counts.toarray(), made.counts[:, :3])


def test_damage_is_named(made, tmp_path):
    folder = made.visium(tmp_path / "v1")
    positions = folder / "spatial" / "tissue_positions.csv"
    text = positions.read_text()
    positions.write_text(text.replace("A003-1", "other"))
    with pytest.raises(InputError, match=r"1 of 20 barcodes of the matrix have no position, the first is 'A003-1'"):
        read_visium(folder)
    positions.write_text(text.replace("pxl_row_in_fullres", "row"))
    with pytest.raises(InputError, match="no column 'pxl_row_in_fullres'"):
        read_visium(folder)
    positions.unlink()
    with pytest.raises(InputError, match=r"expected one of tissue_positions\.csv"):
        read_visium(folder)
    positions.write_text(text)
    (folder / "spatial" / "scalefactors_json.json").write_text('{"tissue_hires_scalef": "x"}')
    with pytest.raises(InputError, match="tissue_hires_scalef must be"):
        read_visium(folder)
    with h5py.File(folder / "filtered_feature_bc_matrix.h5", "a") as file:
        del file["matrix/indptr"]
        file["matrix/indptr"] = np.zeros(21, int)
    with pytest.raises(InputError, match="damaged"):
        read_visium(folder)
