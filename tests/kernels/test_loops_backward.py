"""The backward loops: digits far from zero, and padding that is never read."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from excora import dispersion
from excora.extrapolation import linear_temperature
from excora.kernels import loops, loops_backward
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


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("centre", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("dim", [7, 64])
def test_the_gradient_of_the_attended_value_has_its_digits_wherever_the_bag_is(centre, dim):
    """A bag far from zero is shifted and walked twice; any other is walked once, four rows at a time."""
    torch.manual_seed(0)
    h = (centre + torch.randn(3, 15, dim)).requires_grad_()
    weight, bias = torch.randn(dim, requires_grad=True), torch.zeros(1)
    mask, pull = torch.rand(3, 15) < 0.8, torch.randn(3, dim)
    found = []
    for dtype in (torch.float32, torch.float64):
        inputs = [x.detach().to(dtype).requires_grad_() for x in (h, weight)]
        out = attend(inputs[0], (inputs[1], bias.to(dtype)), None, (), mask=mask, scale=dim**-0.5).attended
        found.append(torch.autograd.grad((out * pull.to(dtype)).sum(), inputs))
    for ours, exact in zip(*found, strict=True):
        assert (ours - exact).abs().max() < 1e-3 * exact.abs().max()


@pytest.mark.usefixtures("kind")
def test_an_outlier_that_nobody_attends_does_not_spoil_the_gradient_of_the_scorer():
    """A bag far from zero that is not shifted, as its first row is far from the others: sum d_z must still be zero."""
    torch.manual_seed(0)
    h = 1.0 + 1e-3 * torch.randn(3, 101, 32)
    h[:, 0] *= 0.4
    weight, bias, pull, found = torch.rand(32), torch.zeros(1), torch.randn(3, 32), []
    for dtype in (torch.float32, torch.float64):
        scorer = weight.to(dtype).requires_grad_()
        out = attend(h.to(dtype), (scorer, bias.to(dtype)), None, (), scale=3.0)
        found.append(torch.autograd.grad((out.attended * pull.to(dtype)).sum(), scorer)[0])
        assert out.weights[:, 0].max() < 1e-9
    assert (found[0] - found[1]).abs().max() < 1e-2 * found[1].abs().max()


@pytest.mark.parametrize(
    ("law", "tau"),
    [(loops.LINEAR, lambda b, s, x: b + s * x), (loops.POWER, lambda b, s, x: math.exp(b) * (1 + x) ** s)],
)
def test_the_slopes_of_the_laws_are_those_of_finite_differences(law, tau):
    point, step = (0.3, 0.7, 1.9), 1e-6
    found = loops_backward._through_law(law, 2.0, tau(*point), point[1], point[2])
    for place, slope in enumerate(found):
        up, down = ([x + sign * step * (k == place) for k, x in enumerate(point)] for sign in (1, -1))
        assert slope == pytest.approx(2.0 * (tau(*up) - tau(*down)) / (2 * step), rel=1e-6)


def test_the_softmax_hands_on_what_autograd_does():
    generator = np.random.default_rng(0)
    z, pull = (generator.normal(size=9).astype(np.float32) for _ in range(2))
    logits, tau = (
        torch.tensor(z, dtype=torch.float64, requires_grad=True),
        torch.tensor(0.6, dtype=torch.float64, requires_grad=True),
    )
    alpha = torch.softmax(logits / tau, 0)
    d_logits, d_tau = torch.autograd.grad((alpha * torch.from_numpy(pull)).sum(), [logits, tau])
    weights = alpha.detach().numpy().astype(np.float32)
    given = pull.copy()
    loops_backward._through_softmax(weights, np.float32(weights @ pull), np.float32(1 / 0.6), given)
    found = loops_backward._d_tau(z, weights, np.float32(1 / 0.6), given)
    np.testing.assert_allclose(given, d_logits, atol=1e-6)
    assert found == pytest.approx(d_tau.item(), rel=1e-5)
