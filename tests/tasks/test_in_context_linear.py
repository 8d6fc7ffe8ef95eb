"""The in-context task against its own statistics and against ridge regression, which is the best function."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.errors import InputError
from excora.tasks.in_context_linear import InContextLinearTask


def test_ridge_on_the_examples_reaches_the_best_correlation():
    task = InContextLinearTask(dim=4, examples=8, noise=0.3)
    bags, y = task.sample(20_000, seed=1, dtype=torch.float64)
    x, labels, query = bags[:, :-1, :-1], bags[:, :-1, -1:], bags[:, -1:, :-1]
    ridge = query @ torch.linalg.solve(x.mT @ x + 0.3 * torch.eye(4), x.mT @ labels)
    assert np.corrcoef(ridge.flatten(), y)[0, 1] == pytest.approx(task.bayes_pcc, abs=0.01)


def test_tasks_drift_as_they_should():
    """E[y_i y_j x_i.x_j] = d E[beta_i.beta_j] / d for i != j."""
    task = InContextLinearTask(dim=5, examples=3, similarity=0.6)
    x, y = task.sample(40_000, seed=0, dtype=torch.float64)
    told = (x[:, :-1, -1] * y.unsqueeze(1) * (x[:, :-1, :-1] * x[:, -1:, :-1]).sum(-1)).mean(0) / 5
    torch.testing.assert_close(told, torch.tensor([0.216, 0.36, 0.6]).double(), rtol=0, atol=0.05)
    assert task.bayes_pcc < InContextLinearTask(dim=5, examples=3).bayes_pcc


def test_what_is_no_task_is_refused():
    with pytest.raises(InputError, match="similarity from 0 to 1"):
        InContextLinearTask(similarity=1.5)
