"""ECAPool against the oracle, at its start, and its switches."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from oracles.pooling import eca_bag
from torch import nn

from excora import ECAPool, SoftmaxPool
from excora.pooling import GatedScorer
from pooling.samples import DIM, batch, moved, state


@pytest.mark.parametrize("seed", range(5))
def test_eca_pool_equals_the_oracle_away_from_the_start(seed):
    torch.manual_seed(seed)
    h, mask = batch(seed)
    for pool, paper in (
        (moved(ECAPool(DIM)).double(), False),
        (ECAPool.paper(DIM, t_min=0.3, beta=0.9).double(), True),
    ):
        pooled, p = pool(h, mask), state(pool)
        for s in range(len(h)):
            real = h[s][mask[s]].numpy()
            bag = eca_bag(real, np.zeros(len(real)), 1.0, 1.0)
            log_base, slope = (
                (0.0, 0.0) if paper else (p[f"extrapolation.temperature.{x}"][0] for x in ("log_base", "slope"))
            )
            learned = math.exp(log_base) * (1 + bag.dispersion / math.sqrt(DIM)) ** slope
            tau = 0.3 + 0.9 * bag.dispersion if paper else learned
            hidden = p["extrapolation.gain.hidden.weight"] @ bag.mean + p["extrapolation.gain.hidden.bias"]
            hidden = np.maximum(hidden, 0) if paper else np.tanh(hidden)
            raw = float(p["extrapolation.gain.out.weight"][0] @ hidden + p["extrapolation.gain.out.bias"][0])
            gamma = min(1 + math.log1p(math.exp(raw)), 2.0) if paper else 4.0 / (1 + 3.0 * math.exp(-raw))
            weight = p["scorer.weight"][0] if paper else p["scorer.weight"] / math.sqrt(DIM)
            expected = eca_bag(real, real @ weight + p["scorer.bias"][0], gamma, tau)
            np.testing.assert_allclose(pooled.value[s].detach(), expected.value, atol=1e-11)
            np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), expected.weights, atol=1e-12)
            np.testing.assert_allclose(pooled.details["gamma"][s].item(), gamma, rtol=1e-12)
            np.testing.assert_allclose(pooled.details["temperature"][s].item(), tau, rtol=1e-12)
            np.testing.assert_allclose(pooled.details["dispersion"][s].item(), bag.dispersion, rtol=1e-12)


@pytest.mark.parametrize("scorer", [None, GatedScorer(DIM, 3)])
def test_a_fresh_eca_pool_is_the_softmax_pool(scorer):
    plain, ours = SoftmaxPool(DIM, scorer=scorer), ECAPool(DIM, scorer=copy.deepcopy(scorer))
    ours.scorer.load_state_dict(plain.scorer.state_dict())
    h, mask = batch()
    a, b = plain(h.float(), mask), ours(h.float(), mask)
    torch.testing.assert_close(b.value, a.value, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(b.weights, a.weights, rtol=1e-6, atol=1e-6)
    assert (b.details["gamma"] == 1).all()
    assert (b.details["temperature"] == 1).all()
    assert b.penalty.sum == 0


def test_the_paper_form_starts_where_the_paper_says():
    pool = ECAPool.paper(DIM)
    nn.init.zeros_(pool.extrapolation.gain.out.weight)
    nn.init.zeros_(pool.extrapolation.gain.out.bias)
    gamma = pool(torch.randn(3, 4, DIM)).details["gamma"]
    torch.testing.assert_close(gamma, torch.full((3,), 1.0 + math.log(2.0)))


@pytest.mark.parametrize(
    ("switches", "gamma_moves", "tau_moves"),
    [
        ({"residual": None}, False, True),
        ({"temperature": None}, True, False),
        ({"residual": None, "temperature": None}, False, False),
        ({"residual": "paper", "temperature": (0.5, 1.0)}, True, True),
    ],
)
def test_every_component_is_a_switch(switches, gamma_moves, tau_moves):
    details = moved(ECAPool(DIM, **switches))(torch.randn(6, 4, DIM)).details
    assert bool((details["gamma"] != 1).any()) == gamma_moves
    assert bool((details["temperature"] != 1).any()) == tau_moves


def test_the_penalty_is_the_papers_regulariser_over_real_bags():
    pool = moved(ECAPool(DIM, penalty_weight=0.25))
    h, mask = batch()
    pooled = pool(h.float(), mask)
    gamma = pooled.details["gamma"][mask.any(1)]
    torch.testing.assert_close(pooled.penalty.sum / pooled.penalty.count, 0.25 * (gamma - 1).square().mean())


def test_a_pool_of_half_precision_weights_runs():
    pool = ECAPool(DIM).bfloat16()
    pooled = pool(torch.randn(3, 4, DIM, dtype=torch.bfloat16))
    pooled.value.sum().backward()
    assert pooled.value.dtype == torch.bfloat16
    assert pooled.details["dispersion"].dtype == torch.float32
    assert all(torch.isfinite(p.grad).all() for p in pool.parameters())
