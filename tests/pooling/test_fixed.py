"""Weights of places against the closed form of the theory and against real causal attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.errors import InputError
from excora.pooling.fixed import HarmonicPool, PositionPool
from excora.ragged import Ragged
from excora.tasks.pooled_mixture import PooledMixtureTask
from excora.theory.spectral import harmonic_weights
from pooling.samples import DIM, batch


@pytest.mark.parametrize("tau", [0.0, 1.3, -2.0])
def test_harmonic_weights_are_those_of_the_theory_in_every_layout(tau):
    h, mask = batch()
    pool = HarmonicPool(DIM, tau=tau).double()
    tau = pool.tau.item()
    pooled, flat = pool(h, mask), pool(Ragged(h[mask], mask.sum(1)))
    torch.testing.assert_close(flat.weights, pooled.weights[mask], rtol=0, atol=1e-14)
    for s in range(1, len(h)):
        wanted = harmonic_weights(int(mask[s].sum()), tau)
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), wanted, atol=1e-12)
        np.testing.assert_allclose(pooled.value[s].detach(), wanted @ h[s][mask[s]].numpy(), atol=1e-12)
    ten = HarmonicPool(1, learn=False).double()(torch.zeros(1, 10, 1, dtype=torch.float64)).weights[0]
    assert ten[0].item() == pytest.approx(0.2928968, abs=1e-7)
    assert ten.square().sum().item() == pytest.approx(0.1707103, abs=1e-7)


def test_causal_attention_without_parameters_has_these_weights():
    torch.manual_seed(0)
    x = torch.randn(16, 4000, dtype=torch.float64)
    scores = (x @ x.T / 4000).masked_fill(torch.ones(16, 16).triu(1).bool(), -torch.inf)
    seen = torch.softmax(scores, 1).mean(0)
    pool = HarmonicPool(1, tau=1.0).double()
    assert (pool(torch.zeros(1, 16, 1).double()).weights[0] - seen).abs().max() < 2e-3  # 5e-4 measured, of one draw


def test_given_weights_go_to_the_first_places():
    h, mask = batch()
    pool = PositionPool(DIM, [2.0, -0.5, 1.0]).double()
    pooled = pool(h, mask)
    for s in range(1, len(h)):
        n = int(mask[s].sum())
        wanted = np.array([2.0, -0.5, 1.0, 0.0, 0.0, 0.0, 0.0])[:n]
        np.testing.assert_allclose(pooled.effective[s][mask[s]], wanted / wanted.sum(), atol=1e-12)
    assert (PositionPool(1, [1.0, -1.0])(torch.ones(1, 2, 1)).value == 0).all()
    for wrong in ([[1.0]], [0.0, 0.0], [np.nan]):
        with pytest.raises(InputError, match="one a place"):
            PositionPool(2, wrong)
    with pytest.raises(InputError, match="tau must be finite"):
        HarmonicPool(2, tau=np.inf)


@pytest.mark.parametrize(("decay", "better"), [(0.8, "harmonic"), (1.25, "mean")])
def test_harmonic_beats_the_mean_where_early_elements_tell_more_and_the_converse(decay, better):
    task = PooledMixtureTask(dim=16, length=8, decay=decay, first=0.9 if decay < 1 else 0.9 / decay**7, signal=2.0)
    x, y = task.sample(3000, seed=0, dtype=torch.float64)
    mu = task.table()[1]
    fixed = {"harmonic": harmonic_weights(8), "mean": np.ones(8)}
    told = {}
    for name, weights in fixed.items():
        told[name] = np.corrcoef(PositionPool(16, weights).double()(x).value @ mu, y)[0, 1]
    assert max(told, key=told.get) == better
