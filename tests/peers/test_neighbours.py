"""Nearest neighbours against scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from excora.peers import peers, tuned
from excora.peers.scaling import Scaled
from excora.stats.scores import criterion
from peers.samples import parts


def test_they_are_those_of_scikit_learn():
    train, validation, test = parts(targets=2)
    found = tuned(peers["neighbours"], train, validation)
    scaled = Scaled(train, found.parameters["scaled"])
    how = "distance" if found.parameters["by distance"] else "uniform"
    model = KNeighborsRegressor(found.parameters["neighbours"], weights=how).fit(scaled.train.x, train.y)
    np.testing.assert_allclose(found.predict(test), model.predict(scaled(test)), rtol=1e-10)


def test_at_distance_0_and_of_weight_0():
    train, _, _ = parts(n=12, weighted=True)
    found = tuned(peers["neighbours"], train, train, criterion("mse"))
    np.testing.assert_allclose(found.predict(train.x), train.y, rtol=1e-14)  # each finds itself
    nothing = train._replace(weight=np.zeros(12))
    assert np.isfinite(peers["neighbours"].fit(nothing, peers["neighbours"].candidates[5]).predict(train.x)).all()


def test_more_neighbours_than_samples_are_all_of_them():
    train, _, test = parts(n=5)
    found = peers["neighbours"].fit(train, {"neighbours": 50, "by distance": False})
    np.testing.assert_allclose(found.predict(test), np.tile(train.y.mean(0), (5, 1)))
