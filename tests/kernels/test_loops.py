"""The forward loops: digits of long bags, outliers, and bags far from zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora import dispersion
from excora.extrapolation import linear_temperature
from excora.kernels import closed_form, compiled, loops
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
@pytest.mark.parametrize("middle", [1.0, 0.4])
def test_a_bag_far_from_zero_keeps_its_digits_whether_it_looks_alike_or_not(middle):
    """With a middle row like the first the bag is shifted; with another it looks spread, and is measured exactly."""
    generator = torch.Generator().manual_seed(0)
    h = 1.0 + 1e-3 * torch.randn(1, 200, 32, generator=generator)
    h[0, 100] *= middle
    mean = h.double().mean(1, keepdim=True)
    exact = (h.double() - mean).square().sum(2).mean(1).sqrt()
    assert mean.square().sum() > loops.WELL_CONDITIONED * exact.square().sum()  # digits would be lost at 0
    one, zero = torch.tensor(1.0), torch.zeros(32)
    found = attend(h, (zero, zero[0]), linear_temperature, (one, one)).dispersion.double()
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=0)


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


@pytest.mark.parametrize(
    ("real", "runs"),
    [
        ([1, 1, 0, 1, 0, 0, 1], [(0, 2), (3, 4), (6, 7)]),
        ([0, 0, 1], [(2, 3)]),
        ([0, 0, 0], []),
        ([1] * (loops.ROWS + 2), [(0, loops.ROWS), (loops.ROWS, loops.ROWS + 2)]),
    ],
    ids=["gaps", "late", "none", "long"],
)
def test_the_runs_of_real_rows_leave_out_padding_and_are_at_most_so_long(real, runs):
    mask, found, start = np.array(real, bool), [], 0
    while True:
        start, end = loops.run_of(mask, True, start, len(mask))
        if start >= end:
            break
        found.append((start, end))
        start = end
    assert found == runs


@pytest.mark.parametrize("width", [4, loops.NEAR // 500], ids=["near", "far"])
def test_a_sum_over_real_rows_is_the_plain_one_far_from_zero(width):
    generator = np.random.default_rng(0)
    x = (1e3 + generator.normal(size=(600, width))).astype(np.float32)
    real = generator.random(600) < 0.7
    weights = np.where(real, generator.random(600), 0.0).astype(np.float32)
    x[~real] = np.nan
    found = np.empty(width, np.float32)
    loops.weigh(x, real, True, x[np.flatnonzero(real)[0]].copy(), weights, found)
    np.testing.assert_allclose(found, weights[real].astype(float) @ x[real].astype(float), rtol=1e-6)
