"""Slides from file to report: fit, predict, compare, the command line."""

from __future__ import annotations

import json

import anndata
import numpy as np
import pytest
from commands import call
from data.spatial.made import Made, slides

from excora import Run, Settings, compare, fit, predict

QUICK = Settings("spots", epochs=2, dim=4, neighbours=2, batch_size=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return slides(tmp_path_factory.mktemp("slides"), 5)


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "run"
    return fit(folder, output=place, genes="3", expression="minmax", settings=QUICK, progress=False)


def test_genes_are_of_training_and_the_command_says_how_many(run, folder):
    assert {"ERBB2", "MALAT1"} < set(run.preparation.targets)
    rerun = run.config["rerun"]
    assert "--genes 3" in rerun
    assert "--target" not in rerun
    assert any("3 genes, those of the largest mean count over the training slides" in n for n in run.results["notes"])
    assert (run.path / "report.html").stat().st_size > 10_000
    assert run.results["counts"] == {"train": 60, "validation": 20, "test": 20}


def test_a_slide_is_predicted_and_written(run, folder, tmp_path):
    found = predict(Run.load(run.path), folder / "s1.h5ad", features=folder / "features")
    found.save(tmp_path / "p.h5ad")
    written = anndata.read_h5ad(tmp_path / "p.h5ad")
    assert tuple(written.var_names) == run.preparation.targets
    np.testing.assert_allclose(
        written.layers["prediction"][:, 0], found.frame[f"prediction:{run.preparation.targets[0]}"], rtol=1e-5
    )
    assert set(written.layers) == {"prediction", "target"}
    assert set(found.scores) == set(run.preparation.targets)
    inside = np.nanmax(np.abs(written.layers["target"]))
    assert inside < 3, "on the scale of training"


def test_resumed_and_ended_it_is_left_as_it_is(run, folder):
    again = fit(folder, output=run.path, genes="3", expression="minmax", settings=QUICK, progress=False, resume=True)
    assert again.results == run.results


def test_one_slide_by_the_command_line(tmp_path):
    made = Made(spots=36)
    made.h5ad(tmp_path / "a.h5ad")
    made.vectors(tmp_path / "f" / "a.h5")
    words = ["--features", tmp_path / "f", "--output", tmp_path / "run", "--genes", "2", "--json"]
    options = ["--model", "spots", "--epochs", "1", "--dim", "4", "--neighbours", "0", "--no-baselines"]
    said = call("fit", tmp_path / "a.h5ad", *words, *options)
    assert said.exit_code == 0, said.output
    notes = json.loads(said.output[said.output.index("{") :])["notes"]
    assert any("one slide: blocks of it are held out" in note for note in notes)
    out = tmp_path / "p.h5ad"
    said = call("predict", tmp_path / "run", tmp_path / "a.h5ad", "--features", tmp_path / "f", "--output", out)
    assert said.exit_code == 0, said.output
    assert anndata.read_h5ad(out).shape == (36, 2)


def test_compare_has_the_same_genes_in_every_fold(folder):
    paths = [folder / f"s{k}.h5ad" for k in range(4)]
    found = compare(
        paths, features=folder / "features", genes="2", models=["spots", "ridge"], folds=2, seeds=1, settings=QUICK,
        progress=False,
    )  # fmt: skip
    assert {row.model for row in found.rows} == {"spots", "ridge"}
    assert any("over all slides" in note for note in found.notes)
