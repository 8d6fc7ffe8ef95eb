"""Bags of 1e-30 to 1e30: dispersion and gradients exist, in the function, the formulas and both kernels."""

from __future__ import annotations

import pytest
import torch

from excora import ECAPool, Ragged, dispersion
from excora.functional import hull_radius
from excora.kernels import closed_form, compiled, function


@pytest.fixture(params=["torch", "compiled"])
def kind(request, monkeypatch):
    chosen = closed_form if request.param == "torch" else compiled
    monkeypatch.setattr(function, "fastest", lambda dtype, *_: chosen if dtype == torch.float32 else closed_form)


SIZES = [1e-30, 1e-20, 1e-12, 1e12, 1e20, 1e30]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("statistic", [dispersion, hull_radius])
def test_statistics_scale(statistic, size):
    h = torch.randn(3, 6, 4)
    mask = torch.rand(3, 6) > 0.3
    torch.testing.assert_close(statistic(h * size, mask) / size, statistic(h, mask), rtol=1e-5, atol=0.0)
    x = (h * size).requires_grad_()
    assert torch.autograd.grad(statistic(x, mask).sum(), x)[0].isfinite().all()


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("graph", [False, True])
def test_a_pool_of_any_size(size, graph):
    pool, h = ECAPool(4), (torch.randn(3, 6, 4) * size).requires_grad_()
    with torch.no_grad():
        pool.extrapolation.temperature.slope.fill_(0.4)
    pooled = pool(h)
    torch.testing.assert_close(pooled.details["dispersion"].double(), dispersion(h.double()), rtol=1e-5, atol=0.0)
    (gradient,) = torch.autograd.grad(pooled.value.sum(), h, create_graph=graph)
    exact = h.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(pool.double()(exact).value.sum(), exact)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("kind")
def test_bags_of_very_different_sizes_side_by_side():
    """In a ragged block a small bag borrows rows of a large one in place of padding."""
    bags = [torch.randn(n, 4) * size for n, size in ((5, 1e20), (3, 1e-20), (4, 1.0))]
    found = ECAPool(4)(Ragged.collate(bags)).details["dispersion"].double()
    expected = torch.cat([dispersion(bag[None].double()) for bag in bags])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("make", [ECAPool, ECAPool.paper])
def test_the_gain_is_the_same_with_and_without_a_graph(make):
    """Without one its first product is a loop of our own."""
    pool, h = make(5), torch.randn(4, 6, 5)
    with torch.no_grad():
        for parameter in pool.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        found = pool(h).details["gamma"]
    assert len(found.unique()) > 1
    torch.testing.assert_close(found, pool(h).details["gamma"].detach(), rtol=1e-6, atol=1e-6)
