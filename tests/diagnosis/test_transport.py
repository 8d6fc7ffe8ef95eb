"""Maps whose transport is known: gradients of convex functions, rotations, permutations; normal laws in closed form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from excora.diagnosis.transport import MOST_POINTS, gaussian_wasserstein, transport
from excora.errors import InputError

X = np.random.default_rng(0).normal(size=(200, 2))
ROTATION = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
STRETCH = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize("moved", [X + 3.0, X @ STRETCH, X @ STRETCH - 1.0], ids=["shift", "stretch", "both"])
def test_brenier_maps_match_each_point_with_itself(moved):
    found = transport([X, moved])
    assert found.matching == 1.0
    assert (found.optimality, found.efficiency) == (pytest.approx(1.0), pytest.approx(1.0))
    assert found.monge_gap == pytest.approx(0.0, abs=1e-9)


def test_a_rotation_is_far_from_optimal():
    found = transport([X, X @ ROTATION.T])
    assert found.optimality < 0.25
    assert found.matching < 0.05
    assert found.monge_gap > 0


def test_a_permutation_need_not_move_at_all():
    found = transport([X, X[::-1]])
    assert (found.least, found.optimality) == (0.0, 0.0)


def test_least_is_the_best_of_all_pairings():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 6, 3))
    best = min(np.linalg.norm(a - b[list(p)]) for p in itertools.permutations(range(6)))
    assert transport([a, b]).least == pytest.approx(best)


def test_efficiency_of_a_detour():
    there = X + np.array([3.0, 0.0])
    assert transport([X, there, X + np.array([3.0, 4.0])]).efficiency == pytest.approx(5.0 / 7.0)
    assert transport([X, there, X]).efficiency == 0.0  # there and back
    assert transport([X, X]).efficiency == 1.0


def test_labels_keep_pairs_apart():
    moved = X[::-1]
    label = np.arange(200) % 4
    assert transport([X, moved], label=label).least > transport([X, moved]).least


def test_normal_laws_in_closed_form():
    rng = np.random.default_rng(2)
    other = rng.normal(size=(800, 2)) @ np.linalg.cholesky(STRETCH @ STRETCH).T + np.array([2.0, 1.0])
    sample = rng.normal(size=(800, 2))
    cost = ((sample[:, None] - other[None]) ** 2).sum(2)
    seen = np.sqrt(cost[linear_sum_assignment(cost)].mean())
    assert gaussian_wasserstein(np.zeros(2), np.eye(2), [2.0, 1.0], STRETCH @ STRETCH) == pytest.approx(seen, rel=0.05)


@pytest.mark.parametrize(
    ("stages", "match"),
    [
        ([X], "two stages"),
        ([X, X[:5]], "two stages"),
        ([X[:, 0], X[:, 0]], "two stages"),
        ([X, np.full_like(X, np.nan)], "NaN"),
        ([np.zeros((MOST_POINTS + 1, 1))] * 2, "sample"),
    ],
)
def test_stages_are_checked(stages, match):
    with pytest.raises(InputError, match=match):
        transport(stages)
    with pytest.raises(InputError, match="one a point"):
        transport([X, X], label=[1, 2])
