"""Linear attention over examples: its formula, the risks of the theory, and training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from excora.errors import InputError
from excora.pooling.linear import LinearPool, WeightedLinearPool
from excora.tasks.in_context_linear import InContextLinearTask
from excora.theory.in_context import drift, in_context_risk
from pooling.samples import DIM, batch


def test_the_last_element_asks_and_a_lag_has_a_weight():
    torch.manual_seed(0)
    pool = WeightedLinearPool(DIM, taps=2).double()
    with torch.no_grad():
        pool.weight.add_(torch.randn_like(pool.weight))
        pool.taps.copy_(torch.tensor([1.5, -0.5]))
    h, mask = batch()
    pooled = pool(h, mask)
    for s in range(1, len(h)):
        real = h[s][mask[s]].numpy()
        wanted = np.zeros(len(real))
        for i in range(len(real) - 1):
            tap = 1.5 if i == len(real) - 2 else -0.5
            wanted[i] = tap * real[-1] @ pool.weight.detach().numpy() @ real[i] / (len(real) - 1)
        np.testing.assert_allclose(pooled.effective[s][mask[s]].detach(), wanted, atol=1e-12)
        np.testing.assert_allclose(pooled.value[s].detach(), wanted @ real, atol=1e-12)
    with pytest.raises(InputError, match="taps"):
        WeightedLinearPool(3, taps=0)


def errors(pool, x, y):
    with torch.no_grad():
        return (y - pool(x).value[:, -1]).square()


def optimal(pool, task, step=None):
    """W = step * n on the features, as the pool takes a mean; the labels play no part in the scores."""
    step = 1 / (task.examples + task.dim + 1 + task.noise) if step is None else step
    with torch.no_grad():
        pool.weight.zero_()
        pool.weight[:-1, :-1] = torch.eye(task.dim) * step * task.examples
    return pool.double()


def test_weights_of_the_theory_have_its_risks_under_drift():
    """d = 10, n = 40: 9.2415 without weights of the lags, 7.8101 with them, within four standard errors."""
    task = InContextLinearTask(dim=10, examples=40, noise=0.01, similarity=0.9)
    lag = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    known = drift(0.9**lag, 0.9 ** np.arange(40, 0, -1), dim=10, noise=0.01)
    weighted = optimal(WeightedLinearPool(11), task, step=1.0)
    with torch.no_grad():
        weighted.taps[:40] = torch.from_numpy(known.weights[::-1].copy())
    r = 0.9 ** np.arange(40, 0, -1)
    step = r.sum() / (0.9**lag + (10 + 1 + 0.01) * np.eye(40)).sum()
    x, y = task.sample(10_000, seed=0, dtype=torch.float64)
    for pool, risk in ((weighted, known.weighted), (optimal(LinearPool(11), task, step=step), known.plain)):
        found = errors(pool, x, y)
        assert abs(found.mean().item() - risk) < 4 * found.std().item() / math.sqrt(len(found))
    assert known.weighted / known.plain == pytest.approx(0.845, abs=0.001)


def test_training_reaches_the_best_risk_within_three_percent():
    task = InContextLinearTask(dim=5, examples=10, noise=0.25)
    pool = LinearPool(6)
    optimizer = torch.optim.Adam(pool.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
    bags, labels = task.sample(60_000, seed=0)
    for x, y in zip(bags.split(400), labels.split(400), strict=True):
        optimizer.zero_grad()
        (y - pool(x).value[:, -1]).square().mean().backward()
        optimizer.step()
        schedule.step()
    x, y = task.sample(20_000, seed=10_000, dtype=torch.float64)
    best = errors(optimal(LinearPool(6), task), x, y)
    risk = in_context_risk(np.eye(5), np.eye(5), examples=10, noise=0.25)
    assert abs(best.mean().item() - risk) < 4 * best.std().item() / math.sqrt(len(best))
    assert errors(pool.double(), x, y).mean() / best.mean() < 1.03
