"""The forward loops: digits of long bags, outliers, and bags far from zero."""

from __future__ import annotations

import pytest
import torch

from excora import dispersion
from excora.extrapolation import linear_temperature
from excora.kernels import closed_form, compiled
from excora.kernels.attend import attend
from excora.kernels.formulas import Box


@pytest.mark.usefixtures("kind")
def test_dispersion_in_the_kernel_is_as_exact_as_the_function():
    centre = torch.randn(256)
    h = centre * (1e3 / centre.norm()) + torch.randn(4, 300, 256) * (1e-3 / 16)
    zero = torch.zeros(256)
    out = attend(h, (zero, zero[0]), linear_temperature, (zero[0] + 1, zero[0]))
    exact = dispersion(h.double())
    assert ((out.dispersion.double() - exact).abs() / exact).max() < 1e-5


@pytest.mark.usefixtures("kind")
def test_an_outlier_in_front_does_not_spoil_the_dispersion():
    h = torch.randn(1, 20_000, 4) * 1e-3
    h[0, 0] = 1e4
    one, zero = torch.tensor(1.0), torch.zeros(4)
    out = attend(h, (zero, zero[0]), linear_temperature, (one, one))
    exact = dispersion(h.double())
    assert abs(out.dispersion.double() - exact) / exact < 1e-5


def test_long_bags_keep_their_digits():
    h = 3.0 + torch.randn(1, 100_000, 4)
    box = Box(h, None, None, (torch.zeros(4), torch.tensor(0.0)), linear_temperature, (torch.tensor(1.0),) * 2, 1.0)
    for module in (closed_form, compiled):
        found = module.forward(box).found
        exact = dispersion(h.double())
        assert abs(found.dispersion.double() - exact) / exact < (2e-6 if module is compiled else 1e-5)
        # Torch's own product sums a bag in float32 from end to end.
        assert (found.mean.double() - h.double().mean(1)).abs().max() < (2e-6 if module is compiled else 5e-5)
