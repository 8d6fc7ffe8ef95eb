"""Primal attention: its objective at the SVD, and a layer that forms no n x n tensor."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from excora.errors import InputError
from excora.primal import PrimalAttention, ksvd_objective
from excora.reduce import penalties


def solution(n=40, p=16, s=5):
    """e, r, W_e, W_r and Lam at the SVD of phi(q).phi(k); and what e should be."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(n, p, generator=generator, dtype=torch.float64) for _ in range(2))
    phi_q, phi_k = q / q.norm(dim=1, keepdim=True), k / k.norm(dim=1, keepdim=True)
    u, values, vt = torch.linalg.svd(phi_q @ phi_k.T)
    u, values, v = u[:, :s], values[:s], vt[:s].T
    return phi_q, phi_k, phi_k.T @ v, phi_q.T @ u, n / values, u * values


def objective(phi_q, phi_k, w_e, w_r, lam):
    return ksvd_objective(phi_q @ w_e, phi_k @ w_r, w_e, w_r, lam)


def test_the_objective_is_zero_at_the_svd_and_quadratic_around_it():
    phi_q, phi_k, w_e, w_r, lam, wanted = solution()
    assert (phi_q @ w_e - wanted).abs().max() < 1e-12
    assert objective(phi_q, phi_k, w_e, w_r, lam).abs() < 1e-10
    direction = torch.randn(w_e.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    near, nearer = (objective(phi_q, phi_k, w_e + t * direction, w_r, lam).item() for t in (1e-4, 1e-5))
    assert abs(near) < 1e-5
    assert near / nearer == pytest.approx(100, rel=1e-3)


class Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that any operation gives."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.entries = max([self.entries, *(x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor))])
        return out


def test_no_tensor_grows_with_the_square_of_the_elements():
    layer = PrimalAttention(8, heads=2, rank=3, landmarks=4)
    largest = {}
    for n in (250, 500, 1000):
        with Largest() as seen:
            layer(torch.randn(1, n, 8, requires_grad=True)).sum().backward()
        largest[n] = seen.entries
    assert largest[1000] == 2 * largest[500] == 4 * largest[250]
    assert largest[1000] < 20 * 1000


def test_elements_look_at_each_other_and_their_order_and_padding_do_not_count():
    torch.manual_seed(0)
    layer = PrimalAttention(8, heads=2, rank=3).double()
    h = torch.randn(2, 6, 8, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    found = layer(torch.where(mask.unsqueeze(-1), h, torch.nan), mask)
    order = torch.tensor([4, 2, 0, 5, 3, 1])
    torch.testing.assert_close(layer(h[:, order], mask[:, order]), found[:, order])
    torch.testing.assert_close(layer(h[1:, :4])[0], found[1, :4])
    assert (found[1, 4:] == 0).all()
    moved = h.clone()
    moved[0, 0] += 1
    assert not torch.allclose(layer(moved, mask)[0, 1:], found[0, 1:])
    assert torch.autograd.gradcheck(lambda x: layer(x, mask), (h.requires_grad_(),), fast_mode=True)


def test_second_derivatives_are_those_of_finite_differences_beside_padding():
    torch.manual_seed(0)
    layer = PrimalAttention(4, heads=2, rank=2, landmarks=3).double()
    h = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(4) < torch.tensor([[4], [2]])
    weights = list(layer.parameters())

    def energy(h, *_):
        return layer(h, mask).square().sum() + penalties(layer).sum.sum()

    first = torch.autograd.grad(energy(h), weights, create_graph=True)
    second = torch.autograd.grad(sum(x.square().sum() for x in first), weights)
    assert all(x.isfinite().all() for x in second)
    assert torch.autograd.gradgradcheck(energy, (h, layer.project.weight), fast_mode=True)


def test_the_penalty_adds_up_and_training_lowers_it():
    torch.manual_seed(0)
    layer = PrimalAttention(8, heads=2, rank=3)
    h = torch.randn(6, 10, 8)
    mask = torch.ones(6, 10, dtype=torch.bool)
    mask[0] = False
    layer(h, mask)
    whole = penalties(layer)
    assert whole.count.item() == 10  # five bags of two heads
    parts = []
    for part in (slice(0, 2), slice(2, 6)):
        layer(h[part], mask[part])
        parts.append(penalties(layer))
    torch.testing.assert_close(sum(p.sum for p in parts), whole.sum)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        layer(h, mask)
        (penalties(layer).sum / penalties(layer).count).sum().backward()
        optimizer.step()
    assert penalties(layer).sum < 0.05 * whole.sum
    assert layer.spectrum.shape == (2, 3)
    assert (layer.spectrum.diff(dim=1) <= 0).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="heads must divide dim"):
        PrimalAttention(8, heads=3)
    with pytest.raises(InputError, match="width 8, got 4"):
        PrimalAttention(8)(torch.randn(1, 3, 4))
