"""The model door: defaults by kind of samples, models that cannot read them, an output's penalties, seeds."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from excora.data.bags import BagSpec
from excora.data.dataset import Spec
from excora.errors import InputError
from excora.models import Network, Output, default_model, models
from excora.models.base import seeded
from excora.pooling import ECAPool, MeanPool
from excora.reduce import Penalty


def test_each_kind_of_samples_has_a_model():
    assert default_model("bags") == "pool"
    assert default_model("table") == "kriging"
    assert default_model("table", ["dim"]) == default_model("table", trained=True) == "ft-transformer"
    assert default_model("table", ["neighbours", "metric"]) == "retrieval"
    assert default_model("table", ["nobody", "has this"]) == "kriging"
    with pytest.raises(InputError, match="no model reads sounds; there are "):
        default_model("sounds")


@pytest.mark.parametrize("name", ["retrieval", "ft-transformer"])
def test_a_model_for_tables_refuses_bags(name):
    model = models[name]
    with pytest.raises(InputError, match=f"model '{name}' reads table, and these are bags: take 'auto'"):
        model.check(BagSpec(targets=1, width=3), model.Options())


def test_a_model_refuses_a_kind_that_nobody_knows():
    class SoundSpec(Spec):
        kind: ClassVar[str] = "sounds"

    with pytest.raises(InputError, match="model 'pool' reads bags or table, and these are sounds"):
        models["pool"].check(SoundSpec(targets=1), models["pool"].Options())


def test_all_pools_and_named_losses_are_penalties():
    h = torch.randn(3, 4, 2)
    named = Penalty(torch.tensor(2.0), torch.tensor(3.0))
    output = Output(h[:, 0], {"a": MeanPool(2)(h), "b": ECAPool(2)(h)}, {"other": named})
    assert len(output.penalties) == 3
    assert output.penalties[-1] is named
    assert Output(h[:, 0]).penalties == []


def test_a_network_keeps_what_it_is_asked_unless_it_knows_better():
    network, names, features = Network(), ["a", "b"], object()
    assert network.learned == {}
    assert network.element_names(names) is names
    assert network.element_names(None) is None
    assert network.look_up(features) is features
    assert network.carried() == ()
    assert network.compare(torch.zeros(2, 3), torch.zeros(2, 1), None) == {}


def test_a_seeded_block_depends_on_its_seed_and_leaves_the_random_state():
    drawn, state = [], torch.get_rng_state()

    def draw(seed: int) -> None:
        with seeded(seed):
            drawn.append(torch.rand(2))
            raise ValueError("stop")

    for seed in (3, 3, 4):
        with pytest.raises(ValueError, match="stop"):
            draw(seed)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.get_rng_state(), state)
