"""Intervals of one correlation: coverage, groups, few rows, and labels that are unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from excora.stats.intervals import fisher, group_interval, pooled_interval


def test_intervals_cover_and_agree_with_fisher() -> None:
    generator = np.random.default_rng(0)
    hits = {20: 0, 60: 0}
    for n in hits:
        for _ in range(80):
            y = generator.normal(size=n)
            found = pooled_interval(0.5 * y + math.sqrt(0.75) * generator.normal(size=n), y)
            hits[n] += found.low <= 0.5 <= found.high
    assert min(hits.values()) >= 70
    y = generator.normal(size=50_000)
    large = pooled_interval(y + generator.normal(size=50_000), y)
    assert (large.low, large.high) == pytest.approx(fisher(large.value, 50_000), abs=2e-3)
    few = group_interval(np.array([0.1, 0.3]), np.array([30.0, 30.0]))
    assert few.low < 0.2 < few.high
    assert math.isnan(fisher(0.5, 3)[0])


def test_fisher_is_that_of_scipy() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(2, 12))
    found = scipy.stats.pearsonr(x, y)
    assert fisher(found.statistic, 12) == pytest.approx(tuple(found.confidence_interval(0.95)), rel=1e-6)
    one = pooled_interval(x, y)
    assert (one.value, one.low, one.high) == pytest.approx((found.statistic, *fisher(found.statistic, 12)))


def test_groups_are_resampled_whole() -> None:
    generator = np.random.default_rng(3)
    group = np.repeat(np.arange(15), 60)
    x, y = (generator.normal(size=15)[group] + generator.normal(size=900) for _ in range(2))
    wide, narrow = pooled_interval(x, y, group), pooled_interval(x, y)
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_rows_without_a_label_do_not_count() -> None:
    generator = np.random.default_rng(4)
    group = np.repeat(np.arange(14), 5)
    y = generator.normal(size=70)
    x = y + generator.normal(size=70)
    hidden = np.where(group == 3, np.nan, y)
    kept = group != 3
    codes = np.unique(group[kept], return_inverse=True)[1]
    assert pooled_interval(x, hidden, group) == pooled_interval(x[kept], y[kept], codes)
    assert pooled_interval(x, hidden) == pooled_interval(x[kept], y[kept])
    assert math.isnan(pooled_interval(x, np.full(70, np.nan)).value)
