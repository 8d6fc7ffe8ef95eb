"""The channel of age against the weights of the theory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from excora.errors import InputError
from excora.models.parts.decay import decay_channel
from excora.theory.in_context import decay_weights, drift


def weights(query, times, allowed, memory, dim):
    c = decay_channel(torch.tensor(query), torch.tensor(times), torch.tensor(allowed), memory=memory, dim=dim)
    return torch.exp(-(c**2)).numpy(), c


def test_rows_before_the_query_are_weighed_as_the_theory_says_whenever_it_comes():
    times = np.array([0.0, 3.0, 4.0, 9.0])
    for query in (9.0, 30.0, 5000.0):
        found, _ = weights([query], times[None], [[True] * 4], 4.0, 6)
        wanted = decay_weights(9.0 - times, memory=4.0, dim=6, noise=1.0)
        np.testing.assert_allclose(found[0], wanted / wanted.max(), rtol=1e-6)


def test_rows_on_both_sides_of_the_query_too_and_those_not_allowed_do_not_count():
    times, allowed = np.array([[1.0, 7.0, 2.0, 5.5]]), [[True, True, False, True]]
    found, c = weights([5.0], times, allowed, 2.0, 3)
    seen = times[0, [0, 1, 3]]
    similar = np.exp(-np.abs(np.subtract.outer(seen, seen)) / 2)
    wanted = drift(similar, np.exp(-np.abs(5.0 - seen) / 2), dim=3, noise=1.0).weights
    np.testing.assert_allclose(found[0, [0, 1, 3]], wanted / wanted.max(), rtol=1e-6)
    assert c[0, 2] == 0


@given(st.integers(0, 5), st.integers(0, 4), st.integers(0, 1000))
def test_it_is_finite_for_any_rows(n, k, seed):
    rng = np.random.default_rng(seed)
    times, allowed = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 9), rng.random((n, k)) < 0.6
    found, c = weights(rng.normal(size=n), times, allowed, 0.5, 2)
    assert c.shape == (n, k)
    assert c.isfinite().all()
    assert ((found > 0) & (found <= 1)).all()


def test_a_memory_is_a_time():
    with pytest.raises(InputError, match="memory must be a time above 0"):
        weights([1.0], [[1.0]], [[True]], 0.0, 2)
