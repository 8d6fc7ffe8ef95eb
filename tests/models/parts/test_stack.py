"""Shares of a stack against scipy's bounded least squares."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from excora.models.parts.stack import shares


@given(seed=st.integers(0, 10**6), parts=st.integers(1, 3))
def test_shares_are_the_best_of_the_box(seed, parts):
    rng = np.random.default_rng(seed)
    x, weight = rng.normal(size=(40, parts)) + rng.normal(size=(40, 1)), rng.uniform(0.1, 2.0, 40)
    y = x @ rng.uniform(-0.5, 1.5, parts) + rng.normal(size=40)
    found = shares(torch.from_numpy(y), list(torch.from_numpy(x.T.copy())), torch.from_numpy(weight))
    root = np.sqrt(weight)
    peer = lsq_linear(x * root[:, None], y * root, bounds=(0, 1), tol=1e-12)
    np.testing.assert_allclose(found, peer.x, atol=1e-4)


def test_rows_of_no_weight_and_parts_that_say_nothing_count_for_nothing():
    y = torch.tensor([[1.0], [2.0], [50.0]])
    weight = torch.tensor([[1.0], [1.0], [0.0]])
    assert shares(y, [torch.zeros(3, 1), 2 * y.clamp_max(2.0)], weight).tolist() == [0.0, 0.5]
