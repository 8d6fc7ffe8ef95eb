"""Scales: mean and deviation of any size, ranks as normal scores, what is far outside."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from excora.data.scaling import (
    CLIP,
    MOST_QUANTILES,
    far_outside,
    mean_and_std,
    normal_scores,
    quantiles_of,
    standardised,
)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.sampled_from([1.0, 1e-160, 1e140]))
def test_mean_and_deviation_of_any_size(values, unit):
    found = np.array(values) * unit
    mean, std = mean_and_std(found)
    if np.ptp(found) == 0:
        assert (mean, std) == (found[0], 0.0)
    else:
        scale = np.abs(found).max()
        np.testing.assert_allclose(mean / scale, (found / scale).mean(), atol=1e-12)
        np.testing.assert_allclose(std / scale, (found / scale).std(), rtol=1e-9, atol=1e-300)


def test_standardised_values_are_clipped_and_keep_gaps():
    found = standardised(np.array([[1.0, np.nan], [1e150, -1e150]]), [0.0, 1.0], [1e-200, 2.0])
    np.testing.assert_array_equal(found, [[CLIP, np.nan], [CLIP, -CLIP]])


def test_normal_scores_are_those_of_the_ranks():
    values = np.random.default_rng(0).exponential(size=3000)
    quantiles = quantiles_of(values)
    assert (len(quantiles), quantiles[0], quantiles[-1]) == (100, values.min(), values.max())
    inner = np.sort(values)[50:-50]
    wanted = stats.norm.ppf(stats.rankdata(values)[np.argsort(values)][50:-50] / 3001)
    np.testing.assert_allclose(normal_scores(inner, quantiles), wanted, atol=0.06)
    assert (np.diff(normal_scores(np.sort(values), quantiles)) >= 0).all()
    assert len(quantiles_of(np.arange(5.0))) == 10
    assert len(quantiles_of(np.arange(50_000.0))) == MOST_QUANTILES


def test_equal_values_share_the_middle_of_their_ranks():
    quantiles = np.array([0.0, 1, 1, 1, 2])
    np.testing.assert_allclose(normal_scores(np.array([1.0, np.nan]), quantiles), [0, np.nan], atol=1e-12)


def test_far_outside_is_half_the_range_beyond():
    found = far_outside(np.array([[-5.0], [-5.1], [15.0], [15.1], [np.nan]]), [0], [10])
    assert found[:, 0].tolist() == [False, True, False, True, False]
