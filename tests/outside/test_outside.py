"""A pool and a model of other packages, one file each: the contracts hold for them, and training takes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import samples_data
import torch
from contracts.cases import PARTS

from excora.errors import InputError
from excora.models import models
from excora.pooling import pools
from excora.settings import Settings
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import answers

TESTS = Path(__file__).parents[1]


def run(dataset, **named):
    """A trained network, and what it was built from."""
    setup = Settings(**named, batch_size=10, accelerator="cpu").settled(dataset.kind, len(PARTS.train))
    built = build(dataset, PARTS.train, setup)
    arguments = (built.network, built.features, built.target, PARTS, setup.recipe, setup.machine)
    return train(*arguments, progress=False), built, setup


def test_they_come_and_go(guests):
    assert "toy-pool" in pools
    assert pools["toy-pool"].label == "two softmaxes"
    assert models["toy-model"].Options is guests["toy_model"].ToyOptions
    with pytest.raises(InputError, match="there is a pool 'toy-pool' already"):
        pools.register("toy-pool", pools["mean"])


def test_without_them_there_is_a_hint():
    assert "toy-pool" not in pools
    with pytest.raises(InputError, match=r"there is no pool 'toy-pool'.*once that package is imported"):
        pools["toy-pool"]
    with pytest.raises(InputError, match="model must be one of auto, "):
        Settings("toy-model")


@pytest.mark.usefixtures("guests")
@pytest.mark.parametrize(("kind", "model"), [("bags", "pool"), ("table", "pool"), ("table", "retrieval")])
def test_models_that_pool_take_the_pool(kind, model):
    asked = {"model": model, "pool": "toy-pool", "dim": 8, "epochs": 6, "learning_rate": 0.01}
    training, built, setup = run(samples_data.KINDS[kind](), **asked)
    assert training.rows[-1]["train_loss"] < training.rows[0]["train_loss"]
    assert training.monitor.records[-1]["effective_elements"] > 1
    for answer in answers(training.network, built.features, PARTS.test, setup):
        (looked,) = answer.attention.values()
        assert looked.effective.sum() == pytest.approx(1.0, abs=1e-5)
        assert len(looked.weight) == 1 or abs(looked.effective - looked.weight).max() > 0


@pytest.mark.usefixtures("guests")
def test_a_model_that_has_no_pool_of_a_name_says_so():
    with pytest.raises(InputError, match="pool must be one of softmax, eca, eca-paper, got 'toy-pool'"):
        Settings("ft-transformer", pool="toy-pool")


@pytest.mark.usefixtures("guests")
def test_a_model_without_a_pool_trains_on_both_its_losses():
    dataset = samples_data.table(targets=2)
    training, built, setup = run(dataset, model="toy-model", width=8, rebuilding=1.0, epochs=12, start="none")
    assert setup.recipe.learning_rate == 3e-3, "its own recipe"
    assert training.rows[-1]["train_loss"] < training.rows[0]["train_loss"]
    assert training.monitor.records[-1]["pcc"] is not None
    inputs = built.features.read(PARTS.test)
    found = training.network(inputs)
    assert found.pooled == {}
    assert all(answer.attention == {} for answer in answers(training.network, built.features, PARTS.test, setup))
    fresh = build(dataset, PARTS.train, setup).network(inputs)
    error, before = (
        float((x.losses["rebuilding"].sum / x.losses["rebuilding"].count).detach()) for x in (found, fresh)
    )
    assert error < before
    other, built, _ = run(dataset, model="toy-model", width=8, rebuilding=0.0, epochs=12, start="none")
    assert not torch.allclose(other.network(inputs).prediction, found.prediction)


def test_the_contracts_hold_for_them():
    """They are tested by existing: no test names them."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-k", "toy", "-p", "outside.toy_pool", "-p"]
    command += ["outside.toy_model", "-p", "no:cacheprovider", str(TESTS / "contracts")]
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=TESTS.parent, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = int(re.search(r"(\d+) passed", done.stdout).group(1))
    assert passed > 80, done.stdout[-1000:]
