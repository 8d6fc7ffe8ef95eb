"""The mean of the labels."""

from __future__ import annotations

import numpy as np

from excora.peers import peers, tuned
from peers.samples import parts


def test_it_is_the_weighted_mean_of_the_known_labels():
    train, validation, test = parts(targets=2, weighted=True, unknown=0.3)
    found = tuned(peers["mean"], train, validation).predict(test)
    for t in range(2):
        known = ~np.isnan(train.y[:, t])
        np.testing.assert_allclose(found[:, t], np.average(train.y[known, t], weights=train.weight[known]))
