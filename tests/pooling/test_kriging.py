"""Kriging against the textbook's system and against scikit-learn's Gaussian process; its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.keyed import distances, ordinary_kriging
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from torch.func import grad, hessian, jvp, vmap

from excora.errors import InputError
from excora.pooling.kriging import KrigingPool
from pooling.samples import DIM, batch


@pytest.mark.parametrize("options", [{"keys": 3}, {}, {"rank": 2}], ids=str)
def test_weights_variance_and_value_are_those_of_the_textbook(options):
    torch.manual_seed(0)
    pool = KrigingPool(DIM, length=1.5, nugget=0.2, **options).double()
    h, mask = batch()
    pooled = pool(h, mask)
    for s in range(1, len(h)):
        real = h[s][mask[s]]
        keys = pool.read(real).detach().numpy()
        weights, variance = ordinary_kriging(keys, 1.5, 0.2)
        np.testing.assert_allclose(pooled.effective[s][mask[s]].detach(), weights, atol=1e-7)  # nu is a float32
        np.testing.assert_allclose(pooled.value[s].detach(), weights @ real.numpy(), atol=1e-6)
        assert pooled.details["variance"][s].item() == pytest.approx(variance, abs=1e-7)
        kernel = np.exp(-np.linalg.norm(keys, axis=1) / 1.5)
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), kernel / kernel.sum(), atol=1e-7)
    assert pooled.details["variance"][0] == 1.0  # an empty bag


def test_it_is_the_gaussian_process_of_the_same_kernel_with_an_unknown_mean():
    """m = 1'C^-1 y / 1'C^-1 1, then the process of y - m with mean 0: f(q) = m + k'C^-1 (y - m)."""
    rng = np.random.default_rng(0)
    keys, y = rng.normal(size=(15, 3)), rng.normal(size=15)
    c = np.exp(-distances(keys) / 2.0) + 0.3 * np.eye(15)
    b = np.linalg.solve(c, np.ones(15))
    mean = b @ y / b.sum()
    process = GaussianProcessRegressor(Matern(2.0, nu=0.5), alpha=0.3, optimizer=None).fit(keys, y - mean)
    wanted, deviation = process.predict(np.zeros((1, 3)), return_std=True)
    pool = KrigingPool(4, keys=3, length=2.0, nugget=0.3).double()
    pooled = pool(torch.from_numpy(np.concatenate([keys, y[:, None]], 1))[None])
    assert pooled.value[0, 3].item() == pytest.approx(mean + wanted[0], abs=1e-6)
    # An unknown mean adds its own uncertainty to the variance of the process.
    k = np.exp(-np.linalg.norm(keys, axis=1) / 2.0)
    assert pooled.details["variance"].item() == pytest.approx(deviation[0] ** 2 + (1 - b @ k) ** 2 / b.sum(), abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(-3.0, 3.0), st.sampled_from([0.01, 0.1, 1.5]))
def test_weights_sum_to_one_whatever_the_size_of_the_keys(seed, n, size, nugget):
    h = torch.randn(3, n, DIM, generator=torch.Generator().manual_seed(seed)) * 10.0**size
    pooled = KrigingPool(DIM, keys=3, nugget=nugget)(h)
    torch.testing.assert_close(pooled.effective.sum(1), torch.ones(3), rtol=0, atol=1e-3)
    assert pooled.value.isfinite().all()
    assert (pooled.details["variance"] > -1e-3).all()


def test_what_stands_behind_another_element_is_screened_and_copies_share_their_weight():
    pool = KrigingPool(2, keys=2, length=3.0, nugget=0.002).double()
    screened = pool(torch.tensor([[[1.0, 0.0], [1.5, 0.0], [-1.0, 0.0]]]).double()).effective[0]
    assert 10 * screened[1] < screened[0]
    once = pool(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).double()).effective[0]
    twice = pool(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]]).double()).effective[0]
    assert twice[1:].sum().item() == pytest.approx(once[1].item(), abs=2e-3)
    assert twice[1].item() == pytest.approx(twice[2].item())


def test_weights_are_often_negative_where_a_bag_has_many_elements():
    keys = torch.randn(50, 12, 2, generator=torch.Generator().manual_seed(0))
    assert (KrigingPool(2, keys=2)(keys).effective < -1e-3).float().mean() > 0.1


def test_a_large_nugget_is_the_mean_and_equal_elements_are_themselves():
    h, _ = batch()
    torch.testing.assert_close(KrigingPool(DIM, keys=2, nugget=1e6).double()(h).value, h.mean(1), rtol=0, atol=1e-5)
    pool = KrigingPool(DIM, keys=2)
    single = h.float()[:, :1]
    torch.testing.assert_close(pool(single).value, single[:, 0])
    torch.testing.assert_close(pool(single.expand(-1, 90, -1)).value, single[:, 0], rtol=1e-4, atol=1e-4)


def test_gradients_are_finite_where_elements_are_equal_or_at_the_query():
    h = torch.zeros(1, 3, 2, requires_grad=True)
    KrigingPool(2, keys=1)(h).value.square().sum().backward()
    assert h.grad.isfinite().all()


@pytest.mark.parametrize("options", [{"keys": 3}, {}], ids=str)
def test_gradients_can_be_differentiated_again(options):
    torch.manual_seed(0)
    pool = KrigingPool(DIM, **options).double()
    h, mask = batch(elements=4)
    leaf = h.requires_grad_()

    def energy(h):
        pooled = pool(h, mask)
        return pooled.value.square().sum() + pooled.details["variance"].square().sum()

    plain = torch.autograd.grad(energy(leaf), leaf)[0]
    graph = torch.autograd.grad(energy(leaf), leaf, create_graph=True)[0]
    torch.testing.assert_close(graph.detach(), plain, rtol=1e-11, atol=1e-12)
    assert torch.autograd.gradcheck(energy, (leaf,))
    assert torch.autograd.gradgradcheck(energy, (leaf,))
    direction = torch.randn_like(h)
    second = torch.autograd.grad((graph * direction).sum(), leaf)[0]
    torch.testing.assert_close(jvp(energy, (h.detach(),), (direction,))[1], (plain * direction).sum())
    torch.testing.assert_close((hessian(energy)(h.detach()) * direction).sum((3, 4, 5)), second)


def test_gradients_of_each_bag():
    pool = KrigingPool(DIM).double()
    h, mask = batch()

    def energy(h, mask):
        return pool(h[None], mask[None]).value.square().sum()

    leaf = h.clone().requires_grad_()
    whole = torch.autograd.grad(pool(leaf, mask).value.square().sum(), leaf)[0]
    torch.testing.assert_close(vmap(grad(energy))(h, mask), whole)


def test_second_derivatives_are_finite_where_elements_are_equal_or_at_the_query():
    h = torch.zeros(1, 3, 2, requires_grad=True)
    first = torch.autograd.grad(KrigingPool(2, keys=1)(h).value.square().sum(), h, create_graph=True)[0]
    assert torch.autograd.grad(first.square().sum(), h)[0].isfinite().all()


def test_an_element_out_of_reach_leaves_the_others_as_they_are():
    pool = KrigingPool(2, keys=1)
    h = torch.tensor([[[0.5, 1.0], [-1.0, 2.0], [1e30, 3.0]]], requires_grad=True)
    pooled = pool(h)
    alone = pool(torch.tensor([[[0.5, 1.0], [-1.0, 2.0], [1e6, 3.0]]]))
    torch.testing.assert_close(pooled.weights, alone.weights)
    torch.testing.assert_close(pooled.effective, alone.effective)
    leaves = [h, *pool.parameters()]
    slopes = torch.autograd.grad(pooled.value[:, 1].sum() + pooled.weights.square().sum(), leaves)
    assert all(x.isfinite().all() for x in slopes)


def test_a_hundred_equal_elements_keep_three_digits_at_the_least_nugget():
    pool = KrigingPool(2, keys=1, nugget=1.001e-3)
    h = torch.randn(20, 100, 2, generator=torch.Generator().manual_seed(0))
    h[..., 0] = 0.5
    assert (pool(h).value - h.mean(1)).abs().max() < 5e-3


def test_what_is_no_length_or_nugget_is_refused():
    for options in ({"length": 0.0}, {"nugget": 0.0}):
        with pytest.raises(InputError, match="length must be above 0 and nugget above"):
            KrigingPool(DIM, **options)
