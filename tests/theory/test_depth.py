"""Exact ranks of tiny networks, the degree of the polynomial, and the sizing figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from excora.errors import InputError
from excora.theory.depth import (
    PRIME,
    LinearAttentionNet,
    depth_threshold,
    log_rank_bound,
    rank_modulo,
    separation_rank,
    sizing,
)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_network_is_homogeneous_of_degree_3_to_the_depth(depth):
    net = LinearAttentionNet(width=4, heads=2, depth=depth, seed=0)
    x = np.random.default_rng(0).integers(100, size=(2, 3, 4))
    factor = pow(5, 3**depth, PRIME)
    np.testing.assert_array_equal(net(5 * x), net(x) * factor % PRIME)


def test_the_network_is_the_formula():
    net = LinearAttentionNet(width=4, heads=2, depth=1, seed=1)
    net.layers[0] %= 50  # small enough for Python's integers to be compared without the prime
    x = np.random.default_rng(1).integers(10, size=(1, 3, 4))
    q, k, v, o = net.layers[0].astype(object)
    expected = np.zeros((3, 4), object)
    for h in range(2):
        for i in range(3):
            for j in range(3):
                weight = (q[h] @ x[0, i].astype(object)) @ (k[h] @ x[0, j].astype(object))
                expected[i] += o[h].T @ (weight * (v[h] @ x[0, j].astype(object)))
    np.testing.assert_array_equal(net(x)[0], (expected % PRIME).astype(np.int64))


@pytest.mark.parametrize(("width", "heads", "rank"), [(2, 1, 3), (4, 2, 5), (6, 2, 7), (6, 1, 7)])
def test_ranks_of_one_layer(width, heads, rank):
    assert separation_rank(width=width, heads=heads, depth=1) == rank
    assert rank <= 3 ** log_rank_bound(width=width, heads=heads, depth=1) + 1e-9


@pytest.mark.parametrize(("width", "heads", "rank"), [(1, 1, 5), (2, 1, 18), (2, 2, 17)])
def test_ranks_of_two_layers(width, heads, rank):
    assert separation_rank(width=width, heads=heads, depth=2) == rank
    assert rank <= (width + heads) ** 4


def test_rank_modulo_is_the_rank():
    rng = np.random.default_rng(0)
    low = rng.integers(-9, 9, size=(12, 4)) @ rng.integers(-9, 9, size=(4, 15))
    assert rank_modulo(low) == np.linalg.matrix_rank(low) == 4
    assert rank_modulo(np.zeros((3, 3), int)) == 0
    assert rank_modulo(np.eye(5, dtype=int)) == 5


def test_too_few_points_are_said():
    with pytest.raises(InputError, match="more points"):
        separation_rank(width=4, heads=1, depth=1, points=4)


@pytest.mark.parametrize(
    ("parameters", "depth", "width"), [(1.25e8, 20.3, 716), (1.75e11, 78.8, 13_608), (1e12, 94.3, 29_733)]
)
def test_fitted_sizes_solve_the_parameter_count(parameters, depth, width):
    fitted = math.exp(0.05039 * depth + 5.55)
    assert fitted == pytest.approx(width, rel=0.01)
    assert 12 * depth * fitted**2 == pytest.approx(parameters, rel=0.02)


def test_sizing_says_which_side():
    shallow, deep = sizing(depth=3, width=192), sizing(depth=12, width=192)
    assert (shallow.too_shallow, deep.too_shallow) == (True, False)
    assert "below" in str(shallow)
    assert "above" in str(deep)
    assert "no statement about tables" in str(deep)
    assert depth_threshold(3**5) == pytest.approx(5.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: LinearAttentionNet(width=3, heads=2, depth=1, seed=0),
        lambda: separation_rank(width=2, heads=1, depth=1, positions=3),
        lambda: depth_threshold(0),
        lambda: sizing(depth=0, width=8),
    ],
)
def test_bad_sizes_are_named(call):
    with pytest.raises(InputError, match="must be"):
        call()
