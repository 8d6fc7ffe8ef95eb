"""The simple models of a run on the terminal."""

from __future__ import annotations

import io

import numpy as np
import samples_data
from rich.console import Console

from excora.application import simple
from excora.application.simple import simple_models
from excora.data.splits import split
from excora.settings import Settings
from excora.training.building import build


def test_their_validation_scores_are_said_where_somebody_reads(monkeypatch):
    data = samples_data.table()
    parts = split(data, validation=0.2, test=0.2, seed=0)
    setup = Settings("pool", start="none").settled("table", len(parts.train))
    built = build(data, parts.train, setup)
    text = io.StringIO()
    monkeypatch.setattr(simple, "_console", lambda: Console(file=text, force_terminal=True, width=200))
    found = simple_models(data, parts, setup, built, progress=True)
    score = found.scores("ridge", parts.validation)["pcc"]
    assert f"ridge: validation PCC {score:.3f}, LightGBM" in text.getvalue()
    text.truncate(0)
    simple_models(data, parts, setup, built, progress=False)
    assert np.isfinite(score)
    assert not text.getvalue()
