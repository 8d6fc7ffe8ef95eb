"""Settings: names that some model knows, what a model wants of the rest, and their way through files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.errors import InputError
from excora.models import models
from excora.settings import Machine, Recipe, Settings, Setup

CASES = [(name, kind) for name in models for kind in models[name].reads]


@pytest.mark.parametrize(("model", "kind"), CASES)
def test_settings_are_complete_once_there_is_a_model(model, kind):
    setup = Settings(model=model).settled(kind, rows=500)
    assert setup.model == model
    assert setup.options == models[model].Options()
    assert setup.machine == Machine()
    given = Settings(model=model, epochs=7, seed=3, devices=2).settled(kind, rows=500)
    assert (given.recipe.epochs, given.recipe.seed, given.machine.devices) == (7, 3, 2)
    assert given.options == setup.options


def test_auto_is_the_model_for_the_kind_of_samples():
    assert Settings(seed=3).settled("table", 500).model == "kriging"
    assert Settings(dim=12).settled("table", 500).model == "ft-transformer"
    assert Settings(epochs=12).settled("table", 500).model == "ft-transformer"
    assert Settings(dim=12).settled("bags", 500).model == "pool"
    given = Settings(dim=12, dropout=0.0).settled("table", 500).options
    assert (given.dim, given.dropout) == (12, 0.0)
    with pytest.raises(InputError, match="no model reads sounds"):
        Settings().settled("sounds", 500)


@given(
    rows=st.integers(1, 10**7), case=st.sampled_from([("retrieval", 32, 800, 60), ("ft-transformer", 64, 2000, 100)])
)
def test_batches_and_epochs_follow_the_number_of_training_rows(rows, case):
    model, least, wanted, most = case
    recipe = Settings(model).settled("table", rows).recipe
    assert recipe.batch_size in (32, 64, 128, 256)
    assert recipe.batch_size >= least
    if 32 * least <= rows <= 32 * 256:
        assert 2**-0.5 <= recipe.batch_size / (rows / 32) <= 2**0.5
    steps = -(-rows // recipe.batch_size)
    assert 15 <= recipe.epochs <= most
    assert recipe.epochs * steps >= wanted or recipe.epochs == most
    assert (recipe.epochs - 1) * steps < wanted or recipe.epochs == 15
    given = Settings(model, epochs=3, batch_size=7).settled("table", rows).recipe
    assert (given.epochs, given.batch_size) == (3, 7)
    other = Settings("pool").settled("table", rows).recipe
    assert (other.epochs, other.batch_size) == (100, 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim must be finite and at least 1, got 0"),
        ({"dim": "64"}, "dim must be a whole number, got '64'"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"learning_rate": float("inf")}, "learning_rate must be finite"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite"),
        ({"pool": "median"}, "pool must be one of mean, softmax"),
        ({"metric": "deep"}, "metric must be one of full, diagonal, plain"),
        ({"strategy": "fsdp"}, "strategy must be auto or one of Lightning's ddp family"),
        ({"precision": "8"}, "precision must be one of 32-true"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine"),
        ({"average": 1.0}, r"average must be in \[0, 1\), got 1"),
        ({"clip": -1.0}, "clip must be finite and at least 0, got -1"),
        ({"model": "forest"}, "model must be one of auto, .*, got 'forest'"),
        ({"model": 3}, "model must be one of auto"),
        ({"colour": 1}, "there is no setting 'colour' of any model"),
        (
            {"model": "pool", "neighbours": 5},
            "no setting 'neighbours' of model 'pool'; it is an option of kriging, retrieval",
        ),
        ({"model": "ft-transformer", "pool": "mean"}, "pool must be one of softmax, eca, eca-paper, got 'mean'"),
    ],
)
def test_what_makes_no_sense_is_named(change, message):
    with pytest.raises(InputError, match=message):
        Settings(**change)


def test_with_auto_a_name_is_checked_by_those_who_know_it_and_again_by_the_model():
    asked = Settings(pool="mean", neighbours=5)  # the pool model has the one, retrieval both
    assert asked.settled("table", 100).model == "retrieval"
    with pytest.raises(InputError, match=r"'neighbours' of model 'ft-transformer'|pool must be one of"):
        asked.replace(model="ft-transformer").settled("table", 100)
    with pytest.raises(InputError, match="'neighbours' of model 'pool'"):
        asked.settled("bags", 100)


def test_a_preset_is_what_the_model_has_under_that_name_but_for_what_is_named():
    whole, some = (Settings("egn", preset="paper", **named) for named in ({}, {"pool": "eca-paper", "epochs": 2}))
    assert whole.named == models["egn"].presets["paper"]
    assert some.named == whole.named | {"pool": "eca-paper", "epochs": 2}
    assert some.settled("spatial", 100).settings().settled("spatial", 100) == some.settled("spatial", 100)
    assert some.replace(dim=512).named["layers"] == 8


@pytest.mark.parametrize(("model", "preset"), [("auto", "paper"), ("pool", "paper"), ("egn", "papers")])
def test_a_preset_that_is_not_there_names_those_that_are(model, preset):
    with pytest.raises(InputError, match=rf"'{model}' has no preset '{preset}'; presets by model are .*egn: paper"):
        Settings(model, preset=preset)


def test_none_is_as_the_model_wants_it():
    assert Settings(dim=None, epochs=None) == Settings()
    assert Settings(epochs=7).replace(epochs=None) == Settings()
    assert repr(Settings("pool", dim=8)) == "Settings(model='pool', dim=8)"
    assert Settings("pool", dim=8) != Settings("pool", dim=9)


def test_a_setup_survives_json_and_numpy():
    asked = Settings(model="pool", dim=np.int64(8), dropout=np.float32(0.5), learning_rate=1)
    setup = asked.settled("bags", 100)
    again = Setup.from_dict(json.loads(json.dumps(setup.to_dict())))
    assert again == setup
    assert type(again.recipe.learning_rate) is float
    assert Settings(**setup.flat()).settled("bags", 100) == setup
    for wrong in ({"colour": 1}, {"model": "pool", "dim": [1]}, None, {**setup.to_dict(), "colour": 1},
                  {**setup.to_dict(), "options": {"colour": 1}}, {**setup.to_dict(), "recipe": 3},
                  {**setup.to_dict(), "model": "auto"}, {**setup.to_dict(), "model": []}):  # fmt: skip
        with pytest.raises(InputError):
            Setup.from_dict(wrong)


def test_the_one_dictionary_of_version_0_1_is_read():
    old = {"model": "retrieval", "pool": "eca", "dim": 8, "layers": 1, "head": 0, "heads": 4, "dropout": 0.1,
           "attention_dropout": 0.2, "scaling": "standard", "embeddings": "linear", "neighbours": 5, "shared": 0,
           "bins": 8, "metric": "plain", "gap": 0.0, "epochs": 2, "batch_size": None, "seed": 4,
           "devices": 2}  # fmt: skip
    setup = Setup.from_dict(old)
    assert setup.options == models["retrieval"].Options(dim=8, neighbours=5, metric="plain")
    assert setup.recipe == Recipe(epochs=2, seed=4, start="none")
    assert setup.machine == Machine(devices=2)
    with pytest.raises(InputError, match="unknown settings colour: this run was written by another version"):
        Setup.from_dict(old | {"colour": 1})
    with pytest.raises(InputError, match="name its model, got 'auto'"):
        Setup.from_dict(old | {"model": "auto"})
