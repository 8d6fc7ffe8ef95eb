"""The numpy Pearson: against scipy and numpy, and in every case where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import correlation as oracle

import excora
from excora import moments
from excora.stats.correlation import (
    TOLERANCE,
    correlations,
    mean_over_targets,
    pearson,
    selection_mean,
    standardised,
    unit_moments,
    within_groups,
)


def pair(n: int = 40, targets: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.normal(size=(n, targets))
    return y + generator.normal(size=(n, targets)), y


def test_it_is_that_of_scipy_target_by_target():
    x, y = pair()
    expected = [scipy.stats.pearsonr(a, b).statistic for a, b in zip(x.T, y.T, strict=True)]
    np.testing.assert_allclose(pearson(x, y), expected, rtol=1e-13)
    np.testing.assert_allclose(pearson(x[:, 0], y[:, 0]), expected[:1], rtol=1e-13)


def test_an_unknown_label_leaves_its_row_out_of_that_target_alone():
    x, y = pair()
    y[3, 0] = y[5, 0] = np.nan
    x[3, 0] = np.inf  # what stands there does not matter
    known = ~np.isnan(y[:, 0])
    found = pearson(x, y)
    assert found[0] == pytest.approx(np.corrcoef(x[known, 0], y[known, 0])[0, 1], rel=1e-13)
    assert found[1] == pytest.approx(np.corrcoef(x[:, 1], y[:, 1])[0, 1], rel=1e-13)


def test_a_weight_of_2_is_a_repeated_row_and_of_0_none():
    x, y = pair(targets=1)
    weight = np.random.default_rng(1).integers(0, 3, 40).astype(float)
    rows = np.repeat(np.arange(40), weight.astype(int))
    assert pearson(x, y, weight)[0] == pytest.approx(pearson(x[rows], y[rows])[0], rel=1e-13)
    assert pearson(x, y, weight)[0] == pytest.approx(oracle.pearson(x[:, 0], y[:, 0], weight), rel=1e-13)
    assert np.isnan(pearson(x, y, np.zeros(40)))


@given(
    st.integers(0, 20), st.integers(0, 10_000), st.sampled_from([0.0, 1.0, -1e6, 1e12]),
    st.sampled_from([1e-300, 1e-18, 1.0, 1e18, 1e150]), st.booleans(),
)  # fmt: skip
def test_it_says_undefined_where_torch_does_and_the_same_elsewhere(n, seed, offset, scale, weighted):
    generator = np.random.default_rng(seed)
    x, y = generator.integers(0, 3, (2, n, 1)) * scale + offset * scale
    weight = generator.integers(0, 3, n).astype(float) if weighted else None
    w = None if weight is None else torch.from_numpy(weight)
    found = pearson(x, y, weight)[0]
    # excora.pearson is 0 where undefined, which for these data is no correlation otherwise, or both.
    expected = excora.pearson(torch.from_numpy(x), torch.from_numpy(y), weight=w).item() if n else 0.0
    assert np.nan_to_num(found) == pytest.approx(expected, abs=1e-12)
    assert math.isnan(found) == _undefined(x[:, 0], y[:, 0], weight)


def _undefined(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> bool:
    """Fewer than two different values where the weight is not 0."""
    kept = np.ones(len(x), bool) if weight is None else weight > 0
    return min(len(set(x[kept])), len(set(y[kept]))) < 2


def test_the_tolerance_is_that_of_the_losses():
    assert TOLERANCE == moments.TOLERANCE
    # 0.1 added up is no longer 0.1: spread that is rounding.
    rounding = np.array([sum([0.1] * 3) / 3, 0.1, 0.1])
    assert np.ptp(rounding) > 0
    assert np.isnan(pearson(rounding, np.array([1.0, 2.0, 3.0])))


def test_a_prediction_that_is_not_finite_has_no_correlation():
    assert np.isnan(pearson(np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, 3.0])))
    assert np.isnan(pearson(np.array([1.0, np.inf, 3.0]), np.array([1.0, 2.0, 3.0])))


def test_standardised_is_what_it_says():
    x = np.random.default_rng(0).normal(size=50) * 1e-5 + 7
    np.testing.assert_allclose(standardised(x), scipy.stats.zscore(x), atol=1e-9)


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 1000))
def test_sums_by_unit_give_the_correlation_of_any_of_them(n, units, seed):
    generator = np.random.default_rng(seed)
    x, y = generator.integers(0, 4, (2, n)).astype(float)
    unit = generator.integers(0, units, n)
    counts = generator.integers(0, 3, units)
    rows = np.repeat(np.arange(n), counts[unit])
    found = float(correlations(counts @ unit_moments(x, y, unit, units)))
    expected = pearson(x[rows], y[rows])[0]
    assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_within_groups_each_is_by_itself():
    generator = np.random.default_rng(2)
    group = generator.integers(0, 5, 80)
    y = generator.normal(size=80)
    x = y + generator.normal(size=80) + 1e7 * group  # far apart: a common scale would cost half of the digits
    y[::7] = np.nan
    x[group == 3] = 2.0
    found = within_groups(x, y, group, 6)
    for g in (0, 1, 2, 4):
        assert found[g] == pytest.approx(pearson(x[group == g], y[group == g])[0], abs=1e-8)
    assert np.isnan(found[[3, 5]]).all()


def test_means_over_targets():
    rho = np.array([0.2, np.nan, 0.6])
    assert mean_over_targets(rho) == pytest.approx(0.4)
    assert selection_mean(rho) == pytest.approx(0.8 / 3)
    assert math.isnan(mean_over_targets(np.array([np.nan])))
    assert selection_mean(np.array([np.nan])) == 0.0
