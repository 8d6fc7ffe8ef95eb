"""The backward loops: digits far from zero, and padding that is never read."""

from __future__ import annotations

import pytest
import torch

from excora import dispersion
from excora.extrapolation import linear_temperature
from excora.kernels.attend import attend
from kernels.samples import problem, run, single


@pytest.mark.usefixtures("kind")
def test_nan_in_padding_leaks_nowhere_in_float32():
    h, mask, (_, weight, bias, base, slope) = problem((4, 5, 3), seed=7)
    found = []
    for filler in (0.0, torch.nan, torch.inf):
        inputs = single([torch.where(mask.unsqueeze(-1), h, filler), weight, bias, base, slope])
        out = run(mask)(*inputs)
        found.append((out[0], *torch.autograd.grad((out[0] * out[1]).sum() + out[5].sum(), inputs)))
    for other in found[1:]:
        for clean, dirty in zip(found[0], other, strict=True):
            torch.testing.assert_close(dirty, clean, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("kind")
def test_a_homogeneous_bag_far_from_zero_has_its_gradient():
    """d sigma / d h = (h - mu) / (n sigma): the deviations must not drown in the distance from zero."""
    h = (1e3 + 1e-2 * torch.randn(2, 50, 8)).requires_grad_()
    zero, one = torch.zeros(8), torch.tensor(1.0)
    sigma = attend(h, (zero, zero[0]), linear_temperature, (one, one)).dispersion
    (found,) = torch.autograd.grad(sigma.sum(), h)
    exact = h.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(dispersion(exact).sum(), exact)
    assert (found.double() - expected).abs().max() < 2e-2 * expected.abs().max()
