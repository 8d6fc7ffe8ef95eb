"""Distances against numpy, and their derivatives to any order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.keyed import distances as one_by_one
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jvp, vmap

from excora.pooling.distances import distances

#: Turns a sum of distances into one whose gradient is different for each pair.
PAIRS = torch.linspace(-1.0, 2.0, 25, dtype=torch.float64).view(5, 5)


def rows(bags: int = 2) -> torch.Tensor:
    """Five rows a bag, two of them equal."""
    x = torch.randn(bags, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:, 3] = x[:, 1]
    return x


def energy(x: torch.Tensor) -> torch.Tensor:
    return ((-distances(x)).exp() * PAIRS).sum()


def test_they_are_those_of_the_oracle():
    for x, found in zip(rows(), distances(rows()), strict=True):
        np.testing.assert_allclose(found, one_by_one(x.numpy()), rtol=1e-15, atol=0)
    assert distances(torch.zeros(2, 0, 3)).shape == (2, 0, 0)


@pytest.mark.parametrize("again", [False, True])
def test_rows_that_meet_are_at_distance_zero_with_a_gradient_of_zero(again):
    """However far from zero they stand."""
    x = (torch.randn(1, 1, 3) * 1e3).expand(2, 4, 3).clone().requires_grad_()
    found = distances(x)
    assert not found.any()
    slope = torch.autograd.grad(found.sum(), x, create_graph=again)[0]
    assert not slope.any()
    if again:
        assert not torch.autograd.grad(slope.sum(), x)[0].any()


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_single_precision_keeps_the_digits_of_near_rows_far_from_zero(shift):
    x = rows().float() + shift
    exact, near = x.double().requires_grad_(), x.clone().requires_grad_()
    torch.testing.assert_close(distances(x).double(), distances(x.double()), rtol=1e-6, atol=0)
    expected = torch.autograd.grad(energy(exact), exact)[0]
    for again in (False, True):
        found = torch.autograd.grad(energy(near), near, create_graph=again)[0]
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_each_gradient_is_that_of_the_one_before():
    apart = rows()
    apart[:, 3] += 0.3
    leaf = apart.requires_grad_()
    plain = torch.autograd.grad(energy(leaf), leaf)[0]
    again = torch.autograd.grad(energy(leaf), leaf, create_graph=True)[0]
    torch.testing.assert_close(plain, again.detach(), rtol=1e-12, atol=1e-13)
    assert gradcheck(energy, (leaf,))
    assert gradgradcheck(energy, (leaf,))
    # What arrives may lie in memory in any order, and so may the rows.
    turned = apart.detach().mT.contiguous().mT.requires_grad_()
    found = torch.autograd.grad(distances(turned).mT, turned, PAIRS.expand(2, 5, 5))[0]
    torch.testing.assert_close(found, torch.autograd.grad(distances(leaf), leaf, PAIRS.mT.expand(2, 5, 5))[0])


def test_a_second_gradient_inside_autocast_is_of_full_precision():
    leaf = rows().float().requires_grad_()
    plain = torch.autograd.grad(energy(leaf), leaf)[0]
    with torch.autocast("cpu", torch.bfloat16):
        again = torch.autograd.grad(energy(leaf), leaf, create_graph=True)[0]
    torch.testing.assert_close(again.detach(), plain, rtol=1e-4, atol=1e-5)


def test_transforms_agree_with_autograd():
    x, direction = rows(), torch.randn(2, 5, 3, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    first = torch.autograd.grad(energy(leaf), leaf, create_graph=True)[0]
    second = torch.autograd.grad((first * direction).sum(), leaf)[0]
    torch.testing.assert_close(jvp(energy, (x,), (direction,))[1], (first * direction).sum().detach())
    torch.testing.assert_close(jvp(grad(energy), (x,), (direction,))[1], second)
    torch.testing.assert_close((hessian(energy)(x) * direction).sum((3, 4, 5)), second)
    torch.testing.assert_close(vmap(grad(energy))(x), first.detach())
