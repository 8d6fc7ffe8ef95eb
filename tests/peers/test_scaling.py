"""Columns as they are, or standardised."""

from __future__ import annotations

import numpy as np
import scipy.stats

from excora.peers.scaling import Scaled
from peers.samples import parts


def test_columns_are_standardised_by_the_training_part():
    train, _, test = parts()
    train.x[:, 2] = 5.0
    scaled = Scaled(train, True)
    kept = [0, 1, 3]
    np.testing.assert_allclose(scaled.train.x[:, kept], scipy.stats.zscore(train.x[:, kept]))
    np.testing.assert_array_equal(scaled(test)[:, 2], test[:, 2] - 5.0)  # no spread to divide by
    np.testing.assert_array_equal(scaled.before(lambda x: x)(test), scaled(test))
    assert Scaled(train, False)(test) is test
