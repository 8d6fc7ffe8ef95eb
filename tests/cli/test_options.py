"""Options that several commands share, made from what models, recipe and roles declare."""

from __future__ import annotations

import inspect
import json
import re

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


def test_a_preset_is_an_option_of_a_model_that_has_one(monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    assert "--preset" in call("fit", "--model", "egn", "--help").output
    assert "--preset" not in call("fit", "--model", "pool", "--help").output
    result = call("fit", "x.csv", "--preset", "paper", "--target", "y", "--output", "run")
    assert "'auto' has no preset 'paper'" in str(result.exception)


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


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_the_help_shows_what_people_need_first_and_the_rest_on_request(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    texts = [call(command, *words, "--help").output for words in ((), ("--model", "pool"), ("--all",))]
    shown = [
        set(re.findall(r"--[a-z-]+", text.partition("Options ─")[2].partition("Options of a model")[0]))
        for text in texts
    ]
    assert {"--target", "--output", "--group", "--model", "--epochs", "--all"} <= shown[0]
    assert len(shown[0]) < 20
    assert not shown[0] & {"--patience", "--devices", "--dim", "--sep", "--no-such"}
    assert {"--dim", "--patience"} <= shown[1]
    assert "--devices" not in shown[1]
    assert {"--devices", "--sep", "--weight", "--patience"} <= shown[2]
    assert f"excora {command} --all --help" in " ".join(texts[0].split())


def test_an_option_that_the_help_does_not_show_can_be_given(table, tmp_path):
    line = ["--target", "y", "--output", str(tmp_path / "run"), "--model", "pool", "--dim", "8", "--epochs", "1"]
    assert call("fit", str(table), *line, "--drop", "slide", "--devices", "1", "--sep", ",", "--quiet").output == ""
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["sep"] == ","
    assert "--sep ," in config["rerun"]


def test_an_option_of_another_model_is_named_as_such():
    result = call("fit", "x.csv", "--model", "pool", "--metric", "elliptical", "--target", "y", "--output", "run")
    assert "there is no setting 'metric' of model 'pool'; it is an option of retrieval" in str(result.exception)
