"""The task against its definition: correlations between positions, and the best guess of the label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.errors import InputError
from excora.tasks.pooled_mixture import PooledMixtureTask

TASK = PooledMixtureTask(dim=6, vocabulary=20, length=4, signal=400.0)


def _classes(x):
    mu = TASK.table()[1]
    return torch.sign(x.double() @ mu).numpy()  # so strong a signal shows in a single token


def test_positions_are_correlated_as_stated():
    x, y = TASK.sample(20_000, seed=0)
    s = _classes(x)
    np.testing.assert_allclose(s.T @ s / len(s), TASK.correlation, atol=0.03)
    np.testing.assert_allclose(s.T @ y.numpy() / len(s), TASK.tells, atol=0.03)


def test_bayes_pcc_is_that_of_the_expected_label():
    x, y = TASK.sample(20_000, seed=1)
    expected = np.tanh(_classes(x) @ np.arctanh(TASK.tells))
    assert np.corrcoef(expected, y.numpy())[0, 1] == pytest.approx(TASK.bayes_pcc, abs=0.01)


@pytest.mark.parametrize("bad", [{"vocabulary": 3}, {"length": 40}, {"first": 1.0}, {"decay": 2.0}, {"signal": -1.0}])
def test_settings_are_checked(bad):
    with pytest.raises(InputError, match="must"):
        PooledMixtureTask(**bad)
