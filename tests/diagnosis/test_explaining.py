"""Explanations of planted models: the planted elements and no others, whatever the attention."""

from __future__ import annotations

import numpy as np
import pytest

from excora.diagnosis.explaining import beside_pool, explain
from excora.errors import InputError


def test_the_sets_of_a_planted_additive_model_are_the_planted_columns():
    rng = np.random.default_rng(0)
    effects = np.zeros(8)
    effects[[1, 4, 6]] = [3.0, -2.0, 0.6]
    attention = rng.dirichlet(np.ones(9), size=(2, 9))
    attention = 2.0 * attention - 1.0 / 9  # an extrapolating layer: effective weights, some negative
    found = explain(lambda there: float(effects @ there), list("abcdefgh"), attention, tolerance=1.0, most=2)
    assert [found.named(one) for one in found.sets] == [["b"], ["e"]] or {
        tuple(found.named(one)) for one in found.sets
    } == {("b",), ("e",)}
    np.testing.assert_allclose(found.changes, -effects, atol=1e-12)
    assert "b (-3)" in found.sentence


def test_pairs_are_found_where_no_element_is_enough():
    found = explain(lambda there: 2.0 * max(there[0], there[2]), ["a", "b", "c"], tolerance=1.0)
    assert [found.named(one) for one in found.sets] == [["a", "c"]]
    assert found.graph is None


def test_nothing_is_said_where_nothing_moves():
    found = explain(lambda _: 1.0, ["a", "b"], tolerance=0.1)
    assert found.sets == ()
    assert found.sentence.startswith("Nothing")


def test_a_pool_beside_its_elements_hangs_on_the_heavy_ones():
    weights = np.array([0.6, 0.4, 0.0, 0.0])
    found = explain(lambda there: float(weights @ there), list("abcd"), beside_pool(None, weights), tolerance=0.3)
    assert found.graph.neighbours(0) == [1, 2]
    assert [found.named(one) for one in found.sets] == [["a"], ["b"]]


def test_attention_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"\(heads, 3, 3\)"):
        explain(lambda _: 0.0, ["a", "b"], np.eye(2), tolerance=1.0)
