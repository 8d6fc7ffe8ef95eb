"""Options that several commands share, made from what models, recipe and roles declare."""

from __future__ import annotations

import pytest
from commands import call

from excora.models import models


@pytest.mark.parametrize("name", list(models))
def test_the_help_of_fit_shows_the_options_of_the_model_that_is_named(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    result = call("fit", "--model", name, "--help")
    assert result.exit_code == 0
    own = set(models[name].Options.names())
    assert all(f"--{word.replace('_', '-')}" in result.output for word in own)
    others = {word for other in models for word in models[other].Options.names()} - own
    assert not any(f"--{word.replace('_', '-')} " in result.output for word in others - {"model"})
