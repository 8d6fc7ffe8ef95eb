"""How long a training may take, before its first epoch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from excora.settings import Machine, Recipe
from excora.training.batches import Rows
from excora.training.timing import foresee, forward_time
from training.samples import PARTS, TINY, prepared

CPU = Machine(accelerator="cpu")


@pytest.fixture(scope="module")
def made():
    data, setup = prepared(), TINY.settled("bags", 43)
    return data.network(setup), Rows(data.features, np.zeros((len(data.features.sizes), 1), np.float32), None)


def ticking(seconds: float):
    """A clock by which everything takes so long."""
    count = itertools.count()
    return lambda: next(count) * seconds


def test_the_estimate_is_that_of_the_formula(made):
    network, rows = made
    recipe = Recipe(epochs=10)
    line = foresee(network, rows, PARTS.train, PARTS.validation, recipe, CPU, clock=ticking(1.0))
    an_epoch = (3 * len(PARTS.train) + len(PARTS.validation)) / 2  # 2 samples a second
    assert f"about {an_epoch:.0f} s an epoch" in line
    assert "for 10 epochs" in line
    assert ("--epochs" in line) == (10 * an_epoch >= 600)
    assert foresee(network, rows, PARTS.train, PARTS.validation, recipe, CPU, clock=ticking(1e-6)) == ""
    assert foresee(network, rows, PARTS.train, PARTS.validation, recipe, Machine(accelerator="gpu")) == ""


def test_more_samples_are_taken_until_it_can_be_measured(made):
    network, rows = made
    assert forward_time(network, rows, PARTS.train, 1000, ticking(1.0)) == 0.5
    assert forward_time(network, rows, PARTS.train, 1000, ticking(1e-4)) == pytest.approx(1e-4 / len(PARTS.train))
    assert forward_time(network, rows, PARTS.train, 8, ticking(1e-4)) == pytest.approx(1e-4 / 8)


def test_nothing_is_changed_by_it(made):
    network, rows = made
    network.train()
    before, state = {k: v.clone() for k, v in network.state_dict().items()}, torch.get_rng_state()
    forward_time(network, rows, PARTS.train, 8, ticking(1e-4))
    assert network.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
