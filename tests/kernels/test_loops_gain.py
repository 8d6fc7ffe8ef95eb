"""The gain of one bag, compiled: the two forms and their slopes, far out as well."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.extrapolation import free_gain, mlp_gain, paper_gain
from excora.kernels import loops_gain


@pytest.mark.parametrize(("free", "gain"), [(True, free_gain), (False, paper_gain)])
@pytest.mark.parametrize("raw", [-80.0, -31.0, -5.0, -0.3, 0.0, 0.7, 2.0, 19.0, 25.0, 31.0, 80.0])
def test_gain_and_slope_are_those_of_autograd(free, gain, raw):
    x = torch.tensor(raw, dtype=torch.float64, requires_grad=True)
    expected = gain(x, 2.5)
    (slope,) = torch.autograd.grad(expected, x)
    found = loops_gain._bounded(raw, free, 2.5)
    np.testing.assert_allclose(found, (expected.item(), slope.item()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 1.0, 3.0])
def test_the_way_from_mean_to_attended_value_is_torchs(gamma):
    mean, attended, found = torch.randn(9), torch.randn(9), np.empty(9, np.float32)
    loops_gain.lerp(mean.numpy(), attended.numpy(), np.float32(gamma), found)
    torch.testing.assert_close(torch.from_numpy(found), torch.lerp(mean, attended, gamma), rtol=1e-6, atol=1e-7)
    if gamma == 1.0:
        assert (found == attended.numpy()).all()


@pytest.mark.parametrize("free", [True, False])
def test_gamma_of_a_bag_is_that_of_the_formula(free):
    weights = [torch.randn(5, 9), torch.randn(5), torch.randn(1, 5), torch.randn(1)]
    mean, hidden, form = torch.randn(9), np.empty(5, np.float32), "free" if free else "paper"
    expected = mlp_gain(mean, *weights, form=form, cap=3.0)
    first, first_bias, last, last_bias = (x.numpy() for x in weights)
    gamma, _ = loops_gain.gain(mean.numpy(), first, first_bias, last[0], last_bias, free, 3.0, hidden)
    np.testing.assert_allclose(gamma, expected.item(), rtol=1e-5)
    assert np.ptp(hidden) > 0.0
