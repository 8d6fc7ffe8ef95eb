"""models.parts.reach: how far labels lie from predictions, by rows that were left out and by their weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.models.parts.reach import LEVELS, mean_of, reaches, reaches_of_mean, unit_of


def test_with_equal_weights_it_is_the_quantile_of_n_errors_and_one_more():
    errors = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    errors[:10, 1] = torch.nan
    found = reaches(errors, torch.full((40,), 3.0))
    for target, known in ((0, errors[:, 0]), (1, errors[10:, 1])):
        levels = np.clip(np.linspace(0, 1, LEVELS) * (1 + 1 / len(known)), 0, 1)
        np.testing.assert_allclose(found[:, target], np.quantile(known.double(), levels), atol=1e-6)


def test_a_row_of_weight_two_is_two_rows_and_one_of_next_to_none_is_none():
    errors = torch.rand(300, 1, generator=torch.Generator().manual_seed(0))
    weight = torch.where(torch.arange(300) % 3 == 0, 2.0, 1.0)
    twice = reaches(errors.repeat_interleave(weight.long(), 0), torch.ones(400))
    torch.testing.assert_close(reaches(errors, weight)[:190], twice[:190], atol=0.01, rtol=0)
    wild = torch.cat([errors, torch.full((300, 1), 99.0)])
    light = torch.cat([torch.ones(300), torch.full((300,), 1e-9)])
    torch.testing.assert_close(reaches(wild, light)[:199], reaches(errors, torch.ones(300))[:199], atol=0.01, rtol=0)


def test_without_a_known_label_an_error_is_normal():
    found = reaches(torch.full((5, 1), torch.nan), torch.ones(5))
    assert float(found[round(0.9 * (LEVELS - 1)), 0]) == pytest.approx(1.645, abs=1e-3)
    assert unit_of(torch.full((5, 1), torch.nan), torch.ones(5, 1), torch.ones(5)).tolist() == [1.0]


def test_the_unit_is_the_weighed_mean_of_squares_in_units_of_the_variance():
    wrong, variance, weight = torch.tensor([[1.0], [4.0]]), torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 1.0])
    assert unit_of(wrong, variance, weight).tolist() == [(3 * 1 + 1 * 8) / 4]
    assert mean_of(torch.tensor([[1.0], [torch.nan]]), weight).tolist() == [1.0]


def test_members_that_have_learned_of_a_row_do_not_flatter_its_interval():
    """One of two misses every label by 1, the other one, which knew it, by 0: e = 1/2, a = 1/4, e_1^2 - a = 3/4."""
    n = 40
    missed = torch.tensor([1.0, 0.0]).expand(n, 2).unsqueeze(2)
    found = reaches_of_mean(missed, torch.zeros(n).long(), torch.ones(n, 1), torch.ones(n))
    torch.testing.assert_close(found, torch.full((LEVELS, 1), 0.75**0.5))
