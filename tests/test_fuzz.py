"""checks.fuzz: a few thousand inputs pass, and a wrong formula does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import excora.pooling.eca
from checks import fuzz, fuzz_pools
from checks.fuzz_oracle import Oracle
from excora import losses
from excora.kernels import compiled
from excora.kernels.attend import attend_beyond
from excora.kernels.formulas import Attended
from excora.moments import Moments
from excora.pooling.plain import GatedScorer


def test_a_few_thousand_inputs_pass():
    tally, following = fuzz.run(3000, seed=1)
    assert tally.failures == []
    assert tally.inputs >= 3000
    assert following > 50
    assert {"value", "weights", "gradient", "loss", "joint gradient", "pearson", "hull_radius"} <= set(tally.nearest)


def test_a_case_is_the_same_whenever_it_is_run():
    tallies = [fuzz.Tally(), fuzz.Tally()]
    for tally in tallies:
        fuzz.run_case(3, 10, tally)
        fuzz.run_case(3, 11, tally)
    assert tallies[0] == tallies[1]


def nearly(*given: Any, **options: Any) -> tuple[Attended, Tensor, Tensor]:
    found, value, gamma = attend_beyond(*given, **options)
    return found, found.mean + (value - found.mean) * 1.001, gamma


def quotient(self: GatedScorer, h: Tensor) -> Tensor:
    return self.out(torch.tanh(self.content(h)) / torch.sigmoid(self.gate(h)))


ARRIVED = compiled.backward


def less(box, result, grads, out):
    found = ARRIVED(box, result, grads, out)
    return found._replace(logits=found.logits * 0.99, others=tuple(d * 0.99 for d in found.others))


def half_range(self: losses.PearsonLoss, m: Moments) -> Tensor:
    return 1.0 - 0.999 * m.pearson


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "seen"),
    [
        (excora.pooling.eca, "attend_beyond", nearly, "value"),
        (GatedScorer, "forward", quotient, "weights"),
        (compiled, "backward", less, "gradient"),
        (losses.PearsonLoss, "terms", half_range, "loss"),
    ],
)
def test_a_planted_wrong_formula_is_caught(monkeypatch, capsys, owner, name, wrong, seen):
    monkeypatch.setattr(owner, name, wrong)
    tally, case = fuzz.Tally(), 0
    while tally.inputs < 3000 and not any(f"{seen} of (" in failure for failure in tally.failures):
        fuzz.run_case(0, case, tally)
        case += 1
    assert tally.inputs < 3000
    assert "python -m checks.fuzz --seed 0 --case" in capsys.readouterr().out


@pytest.mark.parametrize("name", fuzz_pools.POOLS)
def test_the_derivatives_of_the_oracle_are_those_of_its_values(name):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    pool = fuzz_pools.make_pool(name, 3).double()
    h, real, step = rng.normal(size=(4, 5, 3)), np.ones((4, 5), bool), 1e-6
    real[:, 3:] = [[False, False], [True, False], [True, True], [True, True]]
    h, motion = h * real[..., None], rng.normal(size=h.shape) * real[..., None]
    found = Oracle(pool, 1e-14, {})(h, real, motion)
    up, down = (Oracle(pool, 1e-14, {})(h + sign * step * motion, real, motion) for sign in (1, -1))
    for part in ("value", "weights"):
        slope = (getattr(up, part).value - getattr(down, part).value) / (2 * step)
        np.testing.assert_allclose(getattr(found, part).tangent, slope, atol=1e-8)
