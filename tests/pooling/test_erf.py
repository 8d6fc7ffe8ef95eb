"""Erf attention against its formula, and against the closed-form risk of single-location regression."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import erf

from excora.errors import InputError
from excora.pooling import parameter_groups
from excora.pooling.erf import ErfPool
from excora.tasks.single_location import SingleLocationTask
from excora.theory.single_location import SingleLocation
from pooling.samples import DIM, batch


def test_weights_are_signed_and_have_no_sum():
    torch.manual_seed(0)
    pool = ErfPool(DIM, sharpness=0.8).double()
    h, mask = batch()
    pooled = pool(h, mask)
    k = pool.key.detach().numpy()
    for s in range(1, len(h)):
        real = h[s][mask[s]].numpy()
        wanted = erf(0.8 * real @ k / np.linalg.norm(k))
        np.testing.assert_allclose(pooled.effective[s][mask[s]].detach(), wanted, atol=1e-7)  # 0.8 is single precision
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), abs(wanted) / abs(wanted).sum(), atol=1e-7)
        np.testing.assert_allclose(pooled.value[s].detach(), wanted @ real, atol=1e-6)
    assert (pooled.effective < 0).any()
    assert parameter_groups(pool, 0.1)[-1]["weight_decay"] == 0.0


@pytest.mark.parametrize("sharpness", [0.1, 0.7])
def test_its_risk_is_the_closed_form_one(sharpness):
    """Monte Carlo within four standard errors, for directions that are not the true ones."""
    task = SingleLocationTask(dim=30, length=6, noise=0.0)
    setting = SingleLocation(dim=30, length=6, spread=task.spread)
    where, what = (x.numpy() for x in task.directions())
    rng = np.random.default_rng(1)
    k, v = (x + 0.1 * rng.normal(size=30) for x in (where, what))
    k, v = k / np.linalg.norm(k), v / np.linalg.norm(v)
    pool = ErfPool(30).double()
    pool.load_state_dict({"key": torch.tensor(k), "log_sharpness": torch.tensor([math.log(sharpness)])})
    x, y = task.sample(20_000, seed=2, dtype=torch.float64)
    with torch.no_grad():
        errors = (y - pool(x).value @ torch.tensor(v)).square()
    risk = setting.excess_risk([k @ where, v @ what, v @ where, k @ what, k @ v], sharpness)
    assert abs(errors.mean().item() - risk) < 4 * errors.std().item() / math.sqrt(len(errors))


def test_a_sharpness_of_zero_is_refused():
    with pytest.raises(InputError, match="sharpness must be positive"):
        ErfPool(3, sharpness=0.0)


def test_a_key_of_zero_has_derivatives():
    pool = ErfPool(DIM)
    torch.nn.init.zeros_(pool.key)
    h = torch.randn(2, 3, DIM, requires_grad=True)
    first = torch.autograd.grad(pool(h).value.sum(), [h, pool.key], create_graph=True)
    second = torch.autograd.grad(sum(x.square().sum() for x in first), [h, pool.key], allow_unused=True)
    assert all(x is None or x.isfinite().all() for x in second)
