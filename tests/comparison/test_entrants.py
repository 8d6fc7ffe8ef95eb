"""Who takes part in a comparison."""

from __future__ import annotations

import sys

import pytest

from comparison.samples import QUICK, quick, table
from excora.comparison.entrants import entrants
from excora.errors import InputError, MissingExtraError
from excora.settings import Settings


def test_any_model_with_any_pool_and_any_peer_can_be_asked_for():
    settings = Settings(epochs=1, dim=8, heads=2, neighbours=5)
    names = [
        "ft-transformer",
        "ft-transformer:softmax",
        "retrieval:mean",
        "pool:gated",
        "eca",
        "extratrees",
        "peer:mean",
    ]
    who, _ = entrants(names, settings, "table")
    asked = [None if one.settings is None else (one.settings.model, one.settings.named.get("pool")) for one in who]
    assert asked == [("ft-transformer", None), ("ft-transformer", "softmax"), ("retrieval", "mean"), ("pool", "gated"),
                     ("ft-transformer", "eca"), None, None]  # fmt: skip
    assert who[2].settings.named["neighbours"] == 5  # what a model knows is handed on to it
    assert "neighbours" not in who[0].settings.named
    assert [one.peer for one in who][-2:] == ["extratrees", "mean"]
    with pytest.raises(InputError, match="the pools of model 'ft-transformer' are softmax, eca-paper, eca"):
        entrants(["ft-transformer:mean"], settings, "table")
    with pytest.raises(InputError, match="got 'lightgmb'; did you mean 'lightgbm'\\?"):
        entrants(["lightgmb"], settings, "table")
    found = quick(table(), models=names[1:3], seeds=1, settings=settings)
    assert {row.label for row in found.rows} == {"ft-transformer, softmax", "retrieval, mean"}


def test_a_missing_lightgbm_is_left_out_unless_it_was_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    who, notes = entrants(None, QUICK, "table")
    assert [one.name for one in who] == ["mean", "softmax", "gated", "eca-paper", "eca", "ridge", "neighbours"]
    assert notes == [
        "LightGBM is left out: 'lightgbm' is needed here and is not installed: pip install 'excora[compare]'"
    ]
    with pytest.raises(MissingExtraError, match="compare"):
        quick(table(), models=("ridge", "lightgbm"))
