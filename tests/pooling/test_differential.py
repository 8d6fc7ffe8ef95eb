"""Differential attention against its formula."""

from __future__ import annotations

import torch

from excora.pooling import SoftmaxPool, parameter_groups
from excora.pooling.differential import DifferentialPool
from pooling.samples import DIM, batch


def test_it_is_the_difference_of_two_softmax_pools():
    torch.manual_seed(0)
    pool = DifferentialPool(DIM).double()
    with torch.no_grad():
        pool.balance.fill_(0.7)
    h, mask = batch()
    pooled, first, second = (p.double()(h, mask) for p in (
        pool, SoftmaxPool(DIM, scorer=pool.scorer), SoftmaxPool(DIM, scorer=pool.other)
    ))  # fmt: skip
    torch.testing.assert_close(pooled.value, 1.7 * first.value - 0.7 * second.value)
    torch.testing.assert_close(pooled.effective, 1.7 * first.weights - 0.7 * second.weights)
    torch.testing.assert_close(pooled.weights, first.weights)


def test_a_fresh_one_is_softmax_and_lambda_does_not_decay():
    pool, (h, mask) = DifferentialPool(DIM).double(), batch()
    torch.testing.assert_close(pool(h, mask).value, SoftmaxPool(DIM, scorer=pool.scorer)(h, mask).value)
    assert parameter_groups(pool, 0.1)[1]["params"][0] is pool.balance
