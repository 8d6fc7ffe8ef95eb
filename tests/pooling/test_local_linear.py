"""Local-linear attention against its oracle, its limits, its bound, and what it never forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.keyed import local_linear
from torch.utils._python_dispatch import TorchDispatchMode

from excora.errors import InputError
from excora.pooling import SoftmaxPool, parameter_groups
from excora.pooling.local_linear import LocalLinearPool
from pooling.samples import DIM, batch

EXACT = {"ridge": -40.0, "bound": 1e6}  # no ridge, no bound


@pytest.mark.parametrize("options", [{"keys": 3}, {"keys": 3, "rank": 2}, {}, {"rank": 2}], ids=str)
def test_weights_and_value_are_those_of_the_oracle(options):
    torch.manual_seed(0)
    pool = LocalLinearPool(DIM, ridge=-0.7, bound=0.4, **options).double()
    h, mask = batch()
    pooled = pool(h, mask)
    for s in range(1, len(h)):
        real = h[s][mask[s]]
        keys = real[:, :3].numpy() if "keys" in options else None
        if keys is None:
            keys = (real @ pool.keys.weight.T / DIM**0.5 - pool.keys.query).detach().numpy()
        alpha, effective = local_linear(keys, *(p.item() for p in (pool.ridge, pool.bound)), pool.rank)
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), alpha, atol=1e-12)
        np.testing.assert_allclose(pooled.effective[s][mask[s]].detach(), effective, atol=1e-12)
        np.testing.assert_allclose(pooled.value[s].detach(), effective @ real.numpy(), atol=1e-12)


def test_a_large_ridge_is_softmax():
    class Distance(torch.nn.Module):
        def forward(self, h):
            return -h[..., :2].square().sum(-1)

    h, mask = batch()
    plain = SoftmaxPool(DIM, scorer=Distance())(h, mask)
    pooled = LocalLinearPool(DIM, keys=2, ridge=1e9).double()(h, mask)
    torch.testing.assert_close(pooled.value, plain.value, rtol=0, atol=1e-8)
    torch.testing.assert_close(pooled.weights, plain.weights, rtol=0, atol=1e-12)


def test_a_target_that_is_linear_in_the_keys_is_recovered_exactly_and_softmax_is_off():
    torch.manual_seed(1)
    keys = torch.randn(20, 12, 3, dtype=torch.float64) + torch.tensor([0.8, 0.0, 0.0], dtype=torch.float64)
    target = 3.0 + keys @ torch.tensor([[2.0], [-1.0], [0.5]], dtype=torch.float64)
    h = torch.cat([keys, target], -1)
    exact = LocalLinearPool(4, keys=3, **EXACT).double()(h)
    torch.testing.assert_close(exact.value[:, 3], torch.full((20,), 3.0).double(), rtol=0, atol=1e-7)
    torch.testing.assert_close(exact.value[:, :3], torch.zeros(20, 3).double(), rtol=0, atol=1e-7)  # the query itself
    constant = LocalLinearPool(4, keys=3, ridge=1e9).double()(h).value[:, 3]
    assert (constant - 3.0).abs().mean() > 0.3


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(-8.0, 2.0), st.floats(-3.0, 3.0), st.floats(-3.0, 2.0))
def test_no_channel_leaves_the_bound(seed, n, ridge, bound, size):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(3, n, DIM, generator=generator, dtype=torch.float64) * 10.0**size
    pool = LocalLinearPool(DIM, keys=4, ridge=ridge, bound=bound).double()
    pooled = pool(h)
    alpha = pooled.weights.unsqueeze(-1)
    mean = (alpha * h).sum(1)
    deviation = (alpha * (h - mean.unsqueeze(1)).square()).sum(1).sqrt()
    kappa = torch.nn.functional.softplus(pool.bound)
    assert ((pooled.value - mean).abs() <= kappa * deviation * (1 + 1e-9) + 1e-9 * 10.0**size).all()
    torch.testing.assert_close(pooled.effective.sum(1), torch.ones(3).double())


def test_one_element_or_equal_elements_are_what_they_are():
    pool = LocalLinearPool(DIM, keys=2).double()
    h, _ = batch()
    torch.testing.assert_close(pool(h[:, :1]).value, h[:, 0])
    torch.testing.assert_close(pool(h[:, :1].expand(-1, 6, -1)).value, h[:, 0])


@pytest.mark.parametrize("options", [{"keys": 2}, {}], ids=str)
@pytest.mark.parametrize("size", [1e7, 1e8, 1e12, 1e20, 1e30])
def test_large_keys_are_saturated_softmax_with_finite_gradients(options, size):
    torch.manual_seed(0)
    pool = LocalLinearPool(DIM, **options)
    h = (batch()[0].float() * size).requires_grad_()
    pooled = pool(h)
    torch.testing.assert_close(pooled.effective.sum(1), torch.ones(4))
    torch.testing.assert_close(pooled.effective, pooled.weights, rtol=0, atol=1e-6)
    leaves = [h, *pool.parameters()]
    slopes = torch.autograd.grad((pooled.value / size).sum() + pooled.weights.square().sum(), leaves)
    assert all(x.isfinite().all() for x in slopes)


def test_nothing_of_elements_by_elements_is_formed():
    class Largest(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            sizes = [x.numel() for x in (out if isinstance(out, (tuple, list)) else [out]) if torch.is_tensor(x)]
            Largest.most = max(Largest.most, *sizes, 0)
            return out

    h = torch.randn(1, 500, DIM, requires_grad=True)
    with Largest():
        LocalLinearPool(DIM, keys=4)(h).value.sum().backward()
    assert 0 < Largest.most <= h.numel()


def test_ridge_and_bound_do_not_decay_and_wrong_keys_are_refused():
    free = parameter_groups(LocalLinearPool(DIM), 0.1)[1]["params"]
    assert [p.shape for p in free] == [(1,), (1,)]
    for keys in (0, DIM + 1):
        with pytest.raises(InputError, match=f"from 1 to {DIM}, got {keys}"):
            LocalLinearPool(DIM, keys=keys)
    with pytest.raises(InputError, match="at least 1 channel, got 0"):
        LocalLinearPool(DIM, rank=0)
