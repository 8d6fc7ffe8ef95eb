"""The loops of the residual: the two gains and their slopes, far out as well."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.extrapolation import free_gain, paper_gain
from excora.kernels import loops_residual


@pytest.mark.parametrize(("free", "gain"), [(True, free_gain), (False, paper_gain)])
@pytest.mark.parametrize("raw", [-80.0, -31.0, -5.0, -0.3, 0.0, 0.7, 2.0, 19.0, 25.0, 31.0, 80.0])
def test_gain_and_slope_are_those_of_autograd(free, gain, raw):
    x = torch.tensor(raw, dtype=torch.float64, requires_grad=True)
    expected = gain(x, 2.5)
    (slope,) = torch.autograd.grad(expected, x)
    found = loops_residual._gain(raw, free, 2.5)
    np.testing.assert_allclose(found, (expected.item(), slope.item()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 1.0, 3.0])
def test_the_way_from_mean_to_attended_value_is_torchs(gamma):
    mean, attended, found = torch.randn(9), torch.randn(9), np.empty(9, np.float32)
    loops_residual._lerp(mean.numpy(), attended.numpy(), np.float32(gamma), found)
    torch.testing.assert_close(torch.from_numpy(found), torch.lerp(mean, attended, gamma), rtol=1e-6, atol=1e-7)
    if gamma == 1.0:
        assert (found == attended.numpy()).all()
