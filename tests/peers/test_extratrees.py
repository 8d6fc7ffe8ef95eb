"""ExtraTrees is scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from excora.peers import peers
from peers.samples import parts


def test_it_is_that_of_scikit_learn():
    train, _, test = parts(targets=2, weighted=True)
    given = {"n_estimators": 7, "min_samples_leaf": 2}
    model = ExtraTreesRegressor(random_state=3, **given).fit(train.x, train.y, sample_weight=train.weight)
    np.testing.assert_allclose(peers["extratrees"].fit(train, given, seed=3).predict(test), model.predict(test))
