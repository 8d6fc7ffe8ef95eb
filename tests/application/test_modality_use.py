"""Which modality a run uses, in its folder and on its page."""

from __future__ import annotations

import json

import numpy as np
import pytest
import samples_data
import torch

from excora.application import fit
from excora.application.modality_use import used_modalities
from excora.models import models
from excora.settings import Settings
from excora.training.building import build


@pytest.mark.parametrize("model", ["almt", "mult", "streams"])
def test_it_is_in_the_results_and_in_the_report(model, tmp_path):
    data = samples_data.modalities(60)
    settings = Settings(model, **models[model].small, epochs=1)
    run = fit(data, output=tmp_path / "run", settings=settings, baselines=False, progress=False)
    found = json.loads((tmp_path / "run" / "results.json").read_text())["modalities"]
    assert found["clips"] == 12
    assert [one["modality"] for one in found["uses"]] == ["text", "audio", "vision"]
    assert max(one["moved"] for one in found["uses"]) > 0
    assert found["pcc"] == pytest.approx(run.results["test"]["y0"]["pcc"], abs=1e-5)
    moved = [max(one["moved"].values()) for one in found["by_clip"]]
    assert moved == sorted(moved, reverse=True)
    assert {one["id"] for one in found["by_clip"]} <= set(map(str, data.ids))
    assert bool(found["brought"]) == (model != "streams")
    assert "How much each modality is used" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_what_has_no_modalities_has_no_such_figures(tmp_path):
    settings = Settings("pool", dim=8, epochs=1)
    data = samples_data.bags(40)
    run = fit(data, output=tmp_path / "run", settings=settings, baselines=False, progress=False)
    assert "modalities" not in run.results


def test_a_modality_that_the_head_does_not_read_moves_nothing():
    data = samples_data.modalities(60)
    setup = Settings("streams", pool="mean", layers=0, start="none").settled("modalities", 40)
    built = build(data, np.arange(40), setup)
    with torch.no_grad():
        built.network.head.weight.zero_()
        built.network.head.weight[0, 0] = 1.0  # the first number of the text
    found = used_modalities(built.network, data, built, setup, np.arange(40, 60))
    assert [one["moved"] > 0 for one in found["uses"]] == [True, False, False]
