"""Weights of version 0.1 under today's names and in today's scale; today's own are left as they are."""

from __future__ import annotations

import torch

from excora.models.parts.older import renewed
from excora.pooling import ECAPool, SoftmaxPool


def test_gain_and_temperature_move_and_scalars_become_vectors():
    old = {
        "pool.gain.out.weight": torch.ones(1, 8),
        "pool.varying.temperature.log_base": torch.tensor(0.5),
        "encoder.blocks.0.attention.extrapolation.temperature.slope": torch.tensor(2.0),
        "encoder.gain.weight": torch.ones(3),
    }
    found = renewed(old, scaled=False)
    assert {name: tuple(t.shape) for name, t in found.items()} == {
        "pool.extrapolation.gain.out.weight": (1, 8),
        "pool.varying.extrapolation.temperature.log_base": (1,),
        "encoder.blocks.0.attention.extrapolation.temperature.slope": (1,),
        "encoder.gain.weight": (3,),
    }


def test_a_scorer_without_a_scale_gives_the_same_logits():
    h, weight, bias = torch.randn(4, 6, 9), torch.randn(1, 9), torch.randn(1)
    found = renewed({"pool.scorer.weight": weight, "pool.scorer.bias": bias}, scaled=True)
    pool = SoftmaxPool(9)
    pool.load_state_dict({name.removeprefix("pool."): t for name, t in found.items()})
    torch.testing.assert_close(pool(h).details["logits"], torch.nn.functional.linear(h, weight, bias).squeeze(-1))
    kept = renewed({"pool.scorer.weight": weight}, scaled=False)
    assert kept["pool.scorer.weight"] is weight


def test_what_is_of_today_stays():
    today = {f"pool.{name}": t for name, t in ECAPool(5).state_dict().items()}
    found = renewed(today, scaled=True)
    assert found.keys() == today.keys()
    assert all(found[name] is today[name] for name in today)
