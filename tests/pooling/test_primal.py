"""Primal pooling against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.errors import InputError
from excora.pooling.primal import PrimalPool
from pooling.samples import DIM, batch


def test_weights_and_penalty_are_those_of_the_formula():
    torch.manual_seed(0)
    pool = PrimalPool(DIM, width=4, rank=3).double()
    h, mask = batch()
    pooled = pool(h, mask)
    p = {name: x.detach().numpy() for name, x in pool.named_parameters()}
    total = 0.0
    for s in range(1, len(h)):
        real = h[s][mask[s]].numpy()
        q, k = (real @ w.T / np.linalg.norm(real @ w.T, axis=1, keepdims=True) for w in p["project"])
        e, r = q @ p["w_e"], k @ p["w_r"]
        z = np.exp(np.hstack([e, r]) @ p["scores"])
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), z / z.sum(), atol=1e-12)
        lam = np.diag(np.exp(p["log_scale"]))
        squares = np.trace(e @ lam @ e.T) / len(real) + np.trace(r @ lam @ r.T) / len(real)
        total += (squares / 2 - np.trace(p["w_e"].T @ p["w_r"])) ** 2
    assert pooled.penalty.sum.item() == pytest.approx(total, abs=1e-12)
    assert pooled.penalty.count.item() == len(h) - 1
    with pytest.raises(InputError, match="rank must be from 1 to width"):
        PrimalPool(3, width=4, rank=5)


def test_second_derivatives_are_finite_beside_padding_and_where_an_element_is_zero():
    torch.manual_seed(0)
    pool = PrimalPool(DIM, width=4, rank=3).double()
    h, mask = batch(elements=4)
    h[1] = 0.0
    leaves = [h.requires_grad_(), *pool.parameters()]

    def energy(*leaves):
        pooled = pool(leaves[0], mask)
        return pooled.value.square().sum() + pooled.penalty.sum

    first = torch.autograd.grad(energy(*leaves), leaves, create_graph=True)
    second = torch.autograd.grad(sum(x.square().sum() for x in first), leaves)
    assert all(x.isfinite().all() for x in second)
    assert not first[0][1].any()  # a zero has no direction to turn to
    assert torch.autograd.gradgradcheck(lambda h: energy(torch.cat([h[:1], h[:1] * 0.0, h[1:]])), (h[[0, 2, 3]],))
