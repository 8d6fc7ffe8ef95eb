"""A look inside a run: rows in its folder and on its page."""

from __future__ import annotations

import json

import pytest

from application.samples import table
from excora.application import predict
from excora.application.inside import inside
from excora.errors import InputError


def test_the_rows_go_into_the_folder_and_its_report(home, copy):
    found = inside(copy, home / "data.csv", transport=True, samples=50)
    stored = json.loads((copy / "inside.json").read_text())
    assert stored["samples"] == found.samples == 50
    assert [row["layer"] for row in stored["layers"]] == [row["layer"] for row in found.layers]
    assert found.layers
    assert len(found.pools) == 1
    assert stored["spectra"] == found.spectra
    assert found.spectra[0]["kind"] == "elements"
    page = (copy / "report.html").read_text("utf-8")
    assert "Inside the model" in page
    assert "Singular-value decay" in page
    assert found.spectra[0]["reading"] in page
    assert found.layers[0]["layer"] in page


def test_nothing_is_written_unless_wanted_and_the_run_predicts_as_before(home, copy):
    before = predict(copy, home / "data.csv").frame
    inside(copy, home / "data.csv", write=False)
    assert not (copy / "inside.json").exists()
    assert predict(copy, home / "data.csv").frame.equals(before)


def test_too_few_samples_are_refused(copy, tmp_path):
    table(4).to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(InputError, match="at least 8 samples"):
        inside(copy, tmp_path / "few.csv")
