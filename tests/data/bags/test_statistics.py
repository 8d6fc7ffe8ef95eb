"""Statistics of elements: many bags are sampled, large ones read in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from excora.data.bags import ArrayBags
from excora.data.bags.statistics import MOST_BAGS, ElementStatistics


def test_many_bags_are_sampled_and_large_ones_are_read_in_blocks():
    values = np.arange(2.0 * MOST_BAGS)[:, None]
    found = ElementStatistics.learn(ArrayBags(values, np.ones(2 * MOST_BAGS, int)), np.arange(2 * MOST_BAGS))
    assert abs(found.mean[0] - (MOST_BAGS - 0.5)) < 60
    assert found.mean[0] != MOST_BAGS - 0.5
    large = np.random.default_rng(0).standard_normal((20_000, 100)).astype(np.float32)
    found = ElementStatistics.learn(ArrayBags(large, [20_000]), np.arange(1))
    np.testing.assert_allclose(found.std, large.std(0, dtype=np.float64), rtol=1e-12)


@pytest.mark.parametrize(
    "values",
    [{"mean": [1], "std": [1], "low": [1], "other": [1]}, {"mean": [1], "std": [1], "low": [1], "high": [1, 2]},
     {"mean": [], "std": [], "low": [], "high": []}, {"mean": [1], "std": [0], "low": [1], "high": [1]},
     {"mean": [float("inf")], "std": [1], "low": [1], "high": [1]}, [1]],
)  # fmt: skip
def test_values_that_are_no_statistics(values):
    with pytest.raises((KeyError, TypeError, ValueError)):
        ElementStatistics.from_dict(values)
