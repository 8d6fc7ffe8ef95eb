"""functional: masked mean and softmax, dispersion, hull radius, gain, temperature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.pooling import eca_bag
from torch.autograd import gradcheck, gradgradcheck

from excora import functional as F
from excora.errors import InputError


def bags(seed: int = 0, shape: tuple[int, int, int] = (4, 6, 3)) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(shape, generator=generator, dtype=torch.float64)
    mask = torch.rand(shape[:2], generator=generator) > 0.4
    mask[0] = False
    return h, mask


@given(st.integers(0, 10_000), st.sampled_from([(3, 5, 2), (1, 1, 1), (2, 7, 4), (0, 3, 2), (3, 0, 2)]))
def test_statistics_equal_the_oracle(seed, shape):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(shape, generator=generator, dtype=torch.float64)
    mask = torch.rand(shape[:2], generator=generator) > 0.4
    results = (F.masked_mean(h, mask), F.dispersion(h, mask), F.hull_radius(h, mask))
    for s in range(shape[0]):
        expected = eca_bag(h[s][mask[s]].numpy(), np.zeros(int(mask[s].sum())), 1.0, 1.0)
        np.testing.assert_allclose(results[0][s].numpy(), expected.mean, atol=1e-12)
        np.testing.assert_allclose(results[1][s].item(), expected.dispersion, atol=1e-12)
        np.testing.assert_allclose(results[2][s].item(), expected.radius, atol=1e-12)


@pytest.mark.parametrize("function", [F.masked_mean, F.dispersion, F.hull_radius])
def test_gradients(function):
    h, mask = bags()
    h.requires_grad_()
    assert gradcheck(lambda x: function(x, mask), (h,))
    assert gradgradcheck(lambda x: function(x, mask), (h,))


@pytest.mark.parametrize("function", [F.masked_mean, F.dispersion, F.hull_radius])
def test_nan_in_padding_leaks_neither_into_value_nor_gradient(function):
    h, mask = bags()
    dirty = torch.where(mask.unsqueeze(-1), h, torch.nan).requires_grad_()
    clean = h.clone().requires_grad_()
    function(dirty, mask).sum().backward()
    function(clean, mask).sum().backward()
    assert torch.equal(function(dirty, mask), function(clean, mask))
    assert torch.equal(dirty.grad, clean.grad)


@pytest.mark.parametrize("function", [F.dispersion, F.hull_radius])
def test_constant_bag_has_zero_spread_and_zero_gradient(function):
    h = torch.full((2, 3, 4), 7.1, requires_grad=True)
    out = function(h)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(2))
    assert torch.equal(h.grad, torch.zeros_like(h))


@pytest.mark.parametrize("dim", [1, 16, 512])
def test_dispersion_of_a_homogeneous_bag_far_from_zero(dim):
    centre = torch.randn(dim)
    h = (centre * (1e3 / centre.norm()) + torch.randn(8, 500, dim) * (1e-3 / dim**0.5)).float()
    exact = F.dispersion(h.double())
    assert ((F.dispersion(h).double() - exact).abs() / exact).max() < 1e-5


def test_masked_softmax_equals_softmax_over_the_real_elements():
    logits, mask = torch.randn(4, 6, dtype=torch.float64), bags()[1]
    weights = F.masked_softmax(logits, mask)
    for s in range(4):
        torch.testing.assert_close(weights[s][mask[s]], torch.softmax(logits[s][mask[s]], 0))
    assert torch.equal(weights[0], torch.zeros(6, dtype=torch.float64))
    assert (weights[~mask] == 0).all()


def test_masked_softmax_of_an_empty_row_has_a_finite_gradient():
    logits = torch.tensor([[1.0, torch.nan]], requires_grad=True)
    F.masked_softmax(logits, torch.tensor([[False, False]])).sum().backward()
    assert torch.equal(logits.grad, torch.zeros(1, 2))


def test_a_unit_is_that_of_torch_and_has_derivatives_at_zero():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = torch.stack([x, x * 1e-9, x * 1e30]).requires_grad_()
    torch.testing.assert_close(F.unit(x), torch.nn.functional.normalize(x, dim=-1))
    assert gradgradcheck(F.unit, (x[0].detach().requires_grad_(),))
    for lost in (0.0, 1e-13, 1e30):
        row = torch.full((2, 3), lost, requires_grad=True)
        first = torch.autograd.grad(F.unit(row).sum(), row, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), row)[0]
        assert not any(part.any() for part in (F.unit(row), first, second))
    assert torch.equal(F.unit(torch.zeros(2, 3, dtype=torch.float16)), torch.zeros(2, 3, dtype=torch.float16))
    assert F.unit(torch.tensor([torch.nan, 1.0])).isnan().all()


@pytest.mark.parametrize("power", [2, 4])
def test_what_is_shortened_has_finite_powers_and_all_else_stays(power):
    x = torch.tensor([[1.0, -2e7], [3e38, -1e30]])
    found = F.shortened(x, power)
    assert torch.equal(found[0], x[0])
    torch.testing.assert_close(found[1] / found[1, 0], x[1] / x[1, 0])
    assert found.pow(power).sum(-1).isfinite().all()
    whole = F.shortened(x, power, dim=(-2, -1))
    torch.testing.assert_close(whole / whole.amax(), x / x.amax())
    assert F.shortened(x[:0], power, dim=(-2, -1)).shape == (0, 2)


def test_half_precision_is_raised_for_statistics():
    h = torch.randn(2, 4, 3, dtype=torch.bfloat16)
    assert F.masked_mean(h).dtype == F.dispersion(h).dtype == F.masked_softmax(h[..., 0]).dtype == torch.float32


def test_wrong_shapes_are_named():
    with pytest.raises(InputError, match=r"\(bags, elements, dim\).*\(3, 4\)"):
        F.masked_mean(torch.zeros(3, 4))
    with pytest.raises(InputError, match=r"boolean of shape \(2, 3\).*float32"):
        F.dispersion(torch.zeros(2, 3, 4), torch.zeros(2, 3))
    with pytest.raises(InputError, match="int64"):
        F.masked_mean(torch.zeros(2, 3, 4, dtype=torch.long))
