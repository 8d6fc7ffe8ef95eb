"""Options that several commands share, made from what models, recipe and roles declare."""

from __future__ import annotations

import inspect

import pytest
from commands import call

from excora.cli import options
from excora.models import models
from excora.settings import Settings


@pytest.mark.parametrize("name", list(models))
def test_the_help_of_fit_shows_the_options_of_the_model_that_is_named(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    result = call("fit", "--model", name, "--help")
    assert result.exit_code == 0
    own = set(models[name].Options.names())
    assert all(f"--{word.replace('_', '-')}" in result.output for word in own)
    others = {word for other in models for word in models[other].Options.names()} - own
    assert not any(f"--{word.replace('_', '-')} " in result.output for word in others - {"model"})


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (["fit", "--model", "pool"], "pool"),
        (["fit", "--model=retrieval", "--dim", "8"], "retrieval"),
        (["fit", "--model"], "auto"),
        (["fit", "--models", "pool"], "auto"),
        ([], "auto"),
    ],
)
def test_the_model_is_the_one_that_the_line_names(words, model):
    assert options._named(words) == model


def test_roles_arrive_as_one_argument_and_lists_as_tuples():
    seen = []

    def keep(roles):
        seen.append(roles)

    command = options.roles(keep)
    names = list(inspect.signature(command).parameters)
    assert {"target", "group", "bag", "drop"} <= set(names)
    assert "roles" not in names
    command(**dict.fromkeys(names) | {"target": ["y", "z"], "group": "slide"})
    assert seen == [dict.fromkeys(names) | {"target": ("y", "z"), "group": "slide"}]


def test_what_nobody_names_is_left_to_the_model():
    seen = []

    def keep(settings):
        seen.append(settings)

    command = options.settings(keep, ["--model", "pool"])
    defaults = {name: p.default for name, p in inspect.signature(command).parameters.items()}
    assert {value for name, value in defaults.items() if name != "model"} == {None}
    command(**defaults | {"model": "pool", "dim": 12})
    assert seen == [Settings("pool", dim=12)]
