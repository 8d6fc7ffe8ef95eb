"""Elliptical attention against its formula, and what its metric is worth to a kernel regression."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.pooling.elliptical import EllipticalPool, metric
from pooling.samples import DIM, batch


def softmax(z):
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def test_scores_are_weighed_by_the_differences_of_the_attended_value():
    """The metric by small central differences of softmax attention, an element and a channel at a time."""
    torch.manual_seed(0)
    pool = EllipticalPool(DIM).double()
    with torch.no_grad():
        pool.scorer.weight.mul_(5)
    h, mask = batch()
    pooled = pool(h, mask)
    w, step = pool.scorer.weight.detach().numpy() / np.sqrt(DIM), 1e-5
    for s in range(1, len(h)):
        real = h[s][mask[s]].numpy()
        ends = [[softmax(real @ (w + sign * step * e)) @ real for sign in (1, -1)] for e in np.eye(DIM)]
        moved = np.array([np.abs(up - down).sum() / (2 * step) for up, down in ends])
        m = moved / moved.max() if len(real) > 1 else np.ones(DIM)
        np.testing.assert_allclose(pooled.details["metric"][s].detach(), m, atol=1e-5)
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), softmax(real @ (m * w)), atol=1e-5)


def test_elements_that_are_alike_have_the_metric_one_which_is_softmax_attention():
    pool = EllipticalPool(3)
    h = torch.full((1, 4, 3), 7.0, requires_grad=True)
    pooled = pool(h)
    torch.testing.assert_close(pooled.details["metric"], torch.ones(1, 3), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pooled.value, torch.full((1, 3), 7.0))
    pooled.value.sum().backward()
    assert h.grad.isfinite().all()
    assert h.grad.abs().max() < 2


def test_elements_that_are_zero_have_the_metric_one_with_derivatives_of_zero():
    h = torch.zeros(1, 3, 4, dtype=torch.float64, requires_grad=True)
    found = EllipticalPool(4).double()(h).details["metric"]
    assert torch.equal(found, torch.ones_like(found))
    first = torch.autograd.grad(found.sin().sum(), h, create_graph=True)[0]
    assert not first.any()
    assert not torch.autograd.grad(first.sum(), h)[0].any()


@pytest.mark.parametrize("size", [1e15, 1e20, 1e30])
def test_a_scale_of_the_elements_cancels_from_the_metric(size):
    h = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    alpha = torch.full((2, 5), 0.2)
    torch.testing.assert_close(metric(alpha, h * size, h * size), metric(alpha, h, h), rtol=1e-4, atol=1e-5)


def kernel_regression(query, x, y, m):
    alpha = torch.softmax(-((query[:, None] - x) ** 2 * m).sum(-1) / (2 * 0.5**2), 1)
    return alpha @ y, alpha


@pytest.mark.parametrize("dim", [5, 10])
def test_the_metric_takes_a_quarter_off_the_error_of_a_kernel_regression(dim):
    """sin(2 x_1) with noise 0.3 and dim - 1 channels that mean nothing; 0.64 to 0.71 of the error in eight repeats."""
    errors = []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        x, query = (torch.randn(n, dim, generator=generator) for n in (400, 100))
        y = torch.sin(2 * x[:, 0]) + 0.3 * torch.randn(400, generator=generator)
        plain, alpha = kernel_regression(query, x, y, torch.ones(dim))
        m = metric(alpha, x.expand(100, -1, -1), y.view(1, -1, 1).expand(100, -1, 1)).mean(0)
        better, _ = kernel_regression(query, x, y, m / m.max())
        errors.append([(found - torch.sin(2 * query[:, 0])).square().mean().item() for found in (plain, better)])
    plain_error, error = np.mean(errors, 0)
    assert error / plain_error < 0.75
