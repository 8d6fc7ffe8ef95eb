"""``excora models``, and the options of the model that is named in the help of ``fit``: both read the registries."""

from __future__ import annotations

import json

import pytest
from commands import call

from excora.models import models
from excora.peers import peers
from excora.pooling import pools


def test_models_lists_what_there_is():
    printed = call("models").output
    for word in (*models, *pools, *peers):
        assert word in printed
    found = json.loads(call("models", "--json").output)
    assert list(found["models"]) == list(models)
    assert found["models"]["retrieval"]["reads"] == ["table"]
    assert (found["pools"], found["peers"]) == (list(pools), list(peers))


@pytest.mark.parametrize("name", list(models))
def test_the_help_of_fit_shows_the_options_of_the_model_that_is_named(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    result = call("fit", "--model", name, "--help")
    assert result.exit_code == 0
    own = set(models[name].Options.names())
    assert all(f"--{word.replace('_', '-')}" in result.output for word in own)
    others = {word for other in models for word in models[other].Options.names()} - own
    assert not any(f"--{word.replace('_', '-')} " in result.output for word in others - {"model"})
