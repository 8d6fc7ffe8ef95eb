"""Ridge regression against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from excora.peers import peers, tuned
from excora.peers.scaling import Scaled
from peers.samples import parts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "columns"), [(60, 4), (20, 50)])
def test_it_is_that_of_scikit_learn(n, columns, weighted):
    train, validation, test = parts(n=n, columns=columns, targets=2, weighted=weighted)
    found = tuned(peers["ridge"], train, validation)
    scaled = Scaled(train, found.parameters["scaled"])
    weight = train.weight if weighted else np.ones(n)
    model = Ridge(alpha=n * found.parameters["penalty"], solver="svd")
    model.fit(scaled.train.x, train.y, sample_weight=weight / weight.mean())
    np.testing.assert_allclose(found.predict(test), model.predict(scaled(test)), rtol=1e-7, atol=1e-9)


def test_alpha_is_the_penalty_of_all_samples():
    train, _, test = parts()
    one, other = (peers["ridge"].fit(train, given).predict(test) for given in ({"alpha": 6.0}, {"penalty": 0.1}))
    np.testing.assert_allclose(one, other, rtol=1e-14)
