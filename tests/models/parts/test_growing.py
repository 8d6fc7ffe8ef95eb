"""A tree with drawn thresholds is the obvious one, and nothing that rows may hold leads it astray."""

from __future__ import annotations

import numpy as np
import pytest

from excora.models.parts.growing import add, grow
from tests.oracles import trees as oracle


def table(n: int = 400, columns: int = 5, targets: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(n)
    x = random.normal(size=(n, columns)).astype(np.float32)
    x[:, 0], x[:, -1] = x[:, 0].round(), 1.0  # equal values, and a column that has but one
    y = np.sin(x @ random.normal(size=(columns, targets))) + 0.1 * random.normal(size=(n, targets))
    return x, y, random.uniform(0.2, 2.0, n)


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize(("leaf", "depth", "targets"), [(5, 10, 1), (2, 14, 3), (30, 10, 2), (1, 3, 1)])
def test_it_is_the_obvious_tree(leaf, depth, targets, share):
    x, y, weight = table(targets=targets)
    rows = np.random.default_rng(1).permutation(len(x))[:250]
    given = {"leaf": leaf, "depth": depth, "share": share}
    feature, threshold, child, value = grow(
        x, rows, y[rows], weight[rows], np.random.default_rng(7), **given)  # fmt: skip
    plain = oracle.tree(x[rows], y[rows], weight[rows], np.random.default_rng(7), **given)
    np.testing.assert_array_equal(feature, plain[0])
    np.testing.assert_array_equal(threshold, plain[1].astype(np.float32))
    np.testing.assert_array_equal(child, plain[2])
    np.testing.assert_allclose(value, plain[3], rtol=1e-10, atol=1e-12)
    said = np.ones_like(y)
    add(said, 0.25, x, feature, threshold, child, value)
    np.testing.assert_allclose(said, 1 + 0.25 * plain[3][oracle.leaves(x, *plain[:3])], rtol=1e-10, atol=1e-12)


def test_leaves_have_enough_rows_and_are_few_steps_from_the_root():
    x, y, weight = table(2000)
    rows = np.arange(len(x))
    feature, threshold, child, _ = grow(
        x, rows, y, weight, np.random.default_rng(0), leaf=20, depth=4, share=1.0)  # fmt: skip
    counts = np.unique(oracle.leaves(x, feature, threshold, child), return_counts=True)[1]
    assert counts.min() >= 20
    steps = np.zeros(len(child), int)
    for node, (one, two) in enumerate(child):
        if one != node:
            steps[[one, two]] = steps[node] + 1
    assert steps.max() == 4


@pytest.mark.parametrize("spoilt", ["label", "columns", "few"])
def test_what_cannot_be_parted_is_one_leaf(spoilt):
    x, y, weight = table(50)
    rows = np.arange(1 if spoilt == "few" else 50)
    x = np.ones_like(x) if spoilt == "columns" else x
    y = np.full_like(y, 3.0) if spoilt == "label" else y
    tree = grow(x, rows, y[rows], weight[rows], np.random.default_rng(0), leaf=2, depth=5, share=1.0)
    assert [len(part) for part in tree] == [1] * 4
    assert tree[2].tolist() == [[0, 0]]
    np.testing.assert_allclose(tree[3][0], np.average(y[rows], axis=0, weights=weight[rows]))


def test_rows_of_next_to_no_weight_decide_nothing():
    """Their sum is lost beside that of the others: no side of a split may consist of them."""
    x, y, weight = table(100)
    weight[50:], x[:, 1] = 1e-20, np.arange(100)
    feature, threshold, child, value = grow(
        x, np.arange(100), y, weight, np.random.default_rng(0), leaf=5, depth=6, share=1.0)  # fmt: skip
    assert np.isfinite(value).all()
    found = oracle.leaves(x, feature, threshold, child)
    assert set(found[50:]) <= set(found[:50])


def test_neighbouring_numbers_are_parted_and_the_least_goes_below():
    ulp = np.float32(2.0**-23)
    x = np.array([[1.0], [1.0 + ulp]], np.float32)
    label = np.array([[0.0], [1.0]])
    for seed in range(20):
        tree = grow(x, np.arange(2), label, np.ones(2), np.random.default_rng(seed), leaf=1, depth=3, share=1.0)
        assert tree[1][0] == np.float32(1.0)
        assert tree[3].ravel().tolist() == [0.5, 0.0, 1.0]
