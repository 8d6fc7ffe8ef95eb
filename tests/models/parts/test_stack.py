"""Shares of a stack against scipy's bounded least squares, and what is borne out of it against loops."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

from excora.models.parts import stack
from excora.models.parts.stack import borne_out, shares


@given(seed=st.integers(0, 10**6), parts=st.integers(1, 3))
def test_shares_are_the_best_of_the_box(seed, parts):
    rng = np.random.default_rng(seed)
    x, weight = rng.normal(size=(40, parts)) + rng.normal(size=(40, 1)), rng.uniform(0.1, 2.0, 40)
    y = x @ rng.uniform(-0.5, 1.5, parts) + rng.normal(size=40)
    found = shares(torch.from_numpy(y), list(torch.from_numpy(x.T.copy())), torch.from_numpy(weight))
    root = np.sqrt(weight)
    peer = lsq_linear(x * root[:, None], y * root, bounds=(0, 1), tol=1e-12)
    np.testing.assert_allclose(found, peer.x, atol=1e-4)


@given(seed=st.integers(0, 10**6), together=st.integers(1, 3))
def test_shares_of_parts_that_stand_for_one_thing_are_at_most_one_in_all(seed, together):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 1 + together)) + rng.normal(size=(40, 1))
    y = x @ rng.uniform(-0.5, 1.5, 1 + together) + rng.normal(size=40)
    found = shares(torch.from_numpy(y), list(torch.from_numpy(x.T.copy())), torch.ones(40), together).numpy()
    room = [{"type": "ineq", "fun": lambda s: 1 - s[1:].sum()}]
    error = lambda s: np.square(y - x @ s).sum()  # noqa: E731
    start = np.full(1 + together, 0.5 / together)
    peer = minimize(error, start, bounds=[(0, 1)] * len(start), constraints=room, method="SLSQP", tol=1e-12)
    assert (found >= -1e-12).all()
    assert found[1:].sum() <= 1 + 1e-9
    assert error(found) <= error(peer.x) * (1 + 1e-6)


def test_rows_of_no_weight_and_parts_that_say_nothing_count_for_nothing():
    y = torch.tensor([[1.0], [2.0], [50.0]])
    weight = torch.tensor([[1.0], [1.0], [0.0]])
    assert shares(y, [torch.zeros(3, 1), 2 * y.clamp_max(2.0)], weight).tolist() == [0.0, 0.5]


@given(seed=st.integers(0, 10**6), size=st.integers(1, 4))
def test_what_is_borne_out_goes_by_the_standard_errors_of_whole_units(seed, size):
    rng = np.random.default_rng(seed)
    added, weight, unit = rng.normal(size=(48, 2)), rng.uniform(0.1, 2.0, (48, 2)), np.arange(48) // size
    left = rng.uniform(0, 2) * added + rng.normal(size=(48, 2)) + rng.normal(size=48)[unit][:, None]
    slope = (weight * added * left).sum() / (weight * added**2).sum()
    sums = [(weight * added * (left - slope * added))[unit == u].sum() for u in np.unique(unit)]
    error = np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()) / (weight * added**2).sum()
    expected = max(1 - (stack.DOUBTED * error / slope) ** 4, stack.LEAST) if slope > 0 else 0.0
    given_ = (torch.from_numpy(x) for x in (left, added, weight, unit * 7))
    np.testing.assert_allclose(borne_out(*given_), expected, rtol=1e-9, atol=1e-12)


def test_nothing_added_is_nothing_borne_out():
    assert borne_out(torch.ones(5, 1), torch.zeros(5, 1), torch.ones(5, 1), torch.arange(5)) == 0.0
