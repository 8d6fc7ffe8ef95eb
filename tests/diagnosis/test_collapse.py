"""The mean cosine against all pairs, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from excora.diagnosis.collapse import mean_cosine
from excora.ragged import Ragged


def test_it_is_the_mean_over_all_pairs_in_every_layout():
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(4, 6, 3, generator=generator, dtype=torch.float64) + 1.0
    mask = torch.arange(6) < torch.tensor([[6], [3], [2], [1]])
    found = mean_cosine(torch.where(mask.unsqueeze(-1), h, torch.nan), mask)
    for s in range(3):
        pairs = itertools.combinations(h[s][mask[s]].numpy(), 2)
        wanted = np.mean([a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in pairs])
        np.testing.assert_allclose(found[s], wanted, atol=1e-12)
    assert found[3].isnan()
    torch.testing.assert_close(mean_cosine(Ragged(h[mask], mask.sum(1))), found, equal_nan=True)


def test_elements_that_are_alike_have_one_and_zeros_none():
    assert mean_cosine(torch.full((1, 5, 3), 2.0)).item() == pytest.approx(1.0)
    assert mean_cosine(torch.zeros(1, 5, 3)).item() == 0.0
