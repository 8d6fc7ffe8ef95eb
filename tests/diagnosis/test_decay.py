"""Singular-value decay: against the kernel of cosines, on planted ranks, and where there is nothing to decompose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.decay import directions, kernel_shares

from excora.diagnosis.decay import KEPT, Decay, attention_decay, element_decay, energy_decay, spectrum_decay
from excora.errors import InputError
from excora.primal import PrimalAttention


def planted(rank: int, bags: int = 6, n: int = 40, dim: int = 16, noise: float = 1e-3) -> torch.Tensor:
    """Elements in a random subspace of each bag, evenly, and a little noise."""
    g = torch.Generator().manual_seed(rank)
    basis = torch.linalg.qr(torch.randn(bags, dim, rank, generator=g)).Q
    return torch.randn(bags, n, rank, generator=g) @ basis.mT + noise * torch.randn(bags, n, dim, generator=g)


def test_it_is_the_decay_of_the_kernel_of_cosines():
    h = torch.randn(3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    h[1] += 3.0
    mask = torch.arange(7) < torch.tensor([[7], [4], [6]])
    found = element_decay([(h, mask)])
    wanted = [kernel_shares(x[m].numpy()) for x, m in zip(h, mask, strict=True)]
    padded = np.stack([np.pad(one[:5], (0, max(5 - len(one), 0))) for one in wanted])
    np.testing.assert_allclose(found.shares, padded.mean(0), atol=1e-12)
    assert found.directions == np.mean([directions(one) for one in wanted])
    assert found.most == np.mean([5, 4, 5])
    assert found.matrices == 3


@pytest.mark.parametrize("rank", [1, 2, 3, 6])
def test_a_planted_rank_is_found(rank):
    found = element_decay([(planted(rank), None)])
    assert found.directions <= rank
    assert found.directions > 0.6 * rank
    assert sum(found.shares[:rank]) > 0.99
    assert len(found.shares) == 16


def test_the_reading_says_which_it_is():
    assert "alike" in element_decay([(planted(1), None)]).reading("elements")
    assert "2.0 directions of 16: the elements are of low rank" in element_decay([(planted(2), None)]).reading(
        "elements"
    )
    assert "spread" in element_decay([(planted(16), None)]).reading("elements")
    even, own = torch.full((2, 3, 8, 8), 1 / 8), torch.eye(8).expand(2, 3, 8, 8)
    assert "every element looks at the same" in attention_decay(even).reading("attention")
    assert attention_decay(own).directions == 8.0
    assert "in their own way" in attention_decay(own).reading("attention")
    assert attention_decay(own).matrices == 6


def test_of_ten_equal_shares_nine_are_nine_tenths():
    assert energy_decay([torch.eye(10)]).directions == 9.0


def test_a_primal_layer_brings_its_own_spectrum():
    layer = PrimalAttention(8, heads=2, rank=3)
    layer(torch.randn(4, 9, 8))
    found = spectrum_decay(layer.spectrum)
    squares = layer.spectrum.double().square()
    np.testing.assert_allclose(found.shares, (squares / squares.sum(1, keepdim=True)).mean(0), atol=1e-12)
    assert found.most == 3.0


def test_large_ones_are_taken_in_part():
    many = torch.randn(300, 2, 4)
    assert element_decay([(many[:150], None), (many[150:], None)]).matrices == 128
    long = energy_decay([torch.randn(5000, 40)])
    assert long.most == 40.0
    assert len(long.shares) == KEPT


def test_where_there_is_nothing_to_decompose():
    assert energy_decay([]) is None
    assert element_decay([(torch.randn(3, 1, 5), None)]) is None
    assert element_decay([(torch.randn(2, 4, 5), torch.zeros(2, 4, dtype=torch.bool))]) is None
    zero = energy_decay([torch.zeros(4, 4)])
    assert zero == Decay([0.0] * 4, 0.0, 4.0, 1)
    with pytest.raises(InputError, match=r"matrices \(rows, columns\), got the shape \(3,\)"):
        energy_decay([torch.zeros(3)])
