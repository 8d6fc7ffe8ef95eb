"""The task against its definition, and its best correlation against the posterior mean of whole sequences."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.tasks.single_location import SingleLocationTask


def test_one_token_carries_the_label():
    task = SingleLocationTask(dim=30, length=6, noise=0.0)
    x, y = task.sample(2000, seed=1, dtype=torch.float64)
    where, what = task.directions()
    place = (x @ where - (30 / 2) ** 0.5).abs().argmin(1)
    hits = torch.isclose(x[torch.arange(2000), place] @ what, y)
    assert hits.double().mean() > 0.8  # another token may lie as near by chance
    assert torch.isclose(y.var(), torch.tensor(0.5, dtype=torch.float64), rtol=0.1)


def test_bayes_pcc_is_that_of_the_posterior_mean():
    task = SingleLocationTask(dim=4, length=3, spread=0.8, noise=0.2)
    x, y = task.sample(40_000, seed=2, dtype=torch.float64)
    where, what = task.directions()
    told = torch.distributions.MultivariateNormal((4 / 2) ** 0.5 * where, 0.64 * torch.eye(4, dtype=torch.float64))
    plain = torch.distributions.MultivariateNormal(torch.zeros_like(where), torch.eye(4, dtype=torch.float64))
    expected = (torch.softmax(told.log_prob(x) - plain.log_prob(x), 1) * (x @ what)).sum(1)
    assert float(torch.corrcoef(torch.stack([expected, y]))[0, 1]) == pytest.approx(task.bayes_pcc, abs=0.01)


@pytest.mark.parametrize("bad", [{"dim": 1}, {"length": 0}, {"spread": 0.0}, {"noise": -1.0}])
def test_settings_are_checked(bad):
    with pytest.raises(InputError, match="must be"):
        SingleLocationTask(**bad)
