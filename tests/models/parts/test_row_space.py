"""Coordinates in the span of wide rows: distances are kept, also those of rows that lie outside."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from excora.models.parts import row_space as module
from excora.models.parts.row_space import row_space


@given(seed=st.integers(0, 10**6), n=st.integers(2, 8), more=st.integers(1, 20), rank=st.integers(1, 8))
def test_distances_are_kept_of_rows_of_any_rank_and_of_new_ones(seed, n, more, rank):
    torch.manual_seed(seed)
    width = module.WIDER * n + more
    x = torch.randn(n, rank).double() @ torch.randn(rank, width).double() + 3.0
    new = torch.randn(5, width).double()
    space = row_space(x)
    assert space is not None
    assert space.basis.shape[1] <= min(n - 1, rank)
    torch.testing.assert_close(space.basis.T @ space.basis, torch.eye(space.basis.shape[1]).double())
    torch.testing.assert_close(space(x)[:, -1], torch.zeros(n).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.cdist(space(new), space(x)), torch.cdist(new, x), atol=1e-6, rtol=1e-6)
    direction = torch.randn(width).double()
    turned = space(x) @ space.along(direction)
    torch.testing.assert_close(turned - turned.mean(), x @ direction - (x @ direction).mean(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("shape", [(5, 20), (6, 3), (1, 9), (0, 4)])
def test_rows_that_are_not_wide_stay_as_they_are(shape):
    assert row_space(torch.randn(shape)) is None


def test_rows_that_are_many_or_all_the_same(monkeypatch):
    space = row_space(torch.ones(3, 13))
    assert space is not None
    assert space(torch.ones(2, 13)).tolist() == [[0.0], [0.0]]
    monkeypatch.setattr(module, "MOST_ROWS", 4)
    assert row_space(torch.randn(4, 30)) is not None
    assert row_space(torch.randn(5, 30)) is None
