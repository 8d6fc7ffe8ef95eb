"""Linear models with known graphs: their matrix (I - G)^-1 plays the attention, and the graph must come back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from excora.diagnosis.causal import Graph, attention_correlation, explanations, partial_correlation, skeleton
from excora.errors import InputError


def _attention(edges: dict[tuple[int, int], float], n: int):
    """(I - G)^-1 of cause -> effect weights."""
    g = np.zeros((n, n))
    for (cause, effect), weight in edges.items():
        g[effect, cause] = weight
    return np.linalg.inv(np.eye(n) - g)


def _random_dag(rng, n=6, chance=0.4):
    order = rng.permutation(n)
    return {
        (int(order[i]), int(order[j])): rng.choice([-1, 1]) * rng.uniform(0.3, 0.8)
        for i, j in itertools.combinations(range(n), 2)
        if rng.random() < chance
    }


def _recovered(dags, chance):
    """Share of skeletons that come back exactly and mean structural distance, by the sensitivity."""
    rng = np.random.default_rng(0)
    right, apart = dict.fromkeys((768.0, 1e5, 1e8), 0), dict.fromkeys((768.0, 1e5, 1e8), 0)
    for _ in range(dags):
        edges = _random_dag(rng, chance=chance)
        correlation, wanted = attention_correlation(_attention(edges, 6)), {(min(e), max(e)) for e in edges}
        for n in right:
            found = skeleton(correlation, sensitivity=n).edges
            right[n] += found == wanted
            apart[n] += len(found ^ wanted)
    return {n: right[n] / dags for n in right}, {n: apart[n] / dags for n in apart}


def test_collider_and_chain_values():
    collider = attention_correlation(_attention({(0, 2): 0.8, (1, 2): 0.8}, 3))
    assert partial_correlation(collider, 0, 1) == pytest.approx(0.0, abs=1e-12)
    assert partial_correlation(collider, 0, 1, [2]) == pytest.approx(-0.3902, abs=1e-4)
    chain = attention_correlation(_attention({(0, 1): 0.8, (1, 2): 0.8}, 3))
    assert partial_correlation(chain, 0, 2) == pytest.approx(0.4470, abs=1e-4)
    assert partial_correlation(chain, 0, 2, [1]) == pytest.approx(0.0, abs=1e-12)


def test_row_scaling_cancels():
    a = np.random.default_rng(0).uniform(size=(4, 4))
    scaled = a / a.sum(1, keepdims=True)
    np.testing.assert_allclose(attention_correlation(a), attention_correlation(scaled), atol=1e-12)


@pytest.mark.parametrize("chance", [0.35, 0.4])
def test_recovery_of_200_random_graphs(chance):
    """0.68 +- 0.1 and a distance of 0.48 at N = 768, all at 1e8: the figures lie between these two densities."""
    right, apart = _recovered(200, chance)
    assert right[1e8] == 1.0
    assert apart[1e8] == 0.0
    assert right[1e5] == pytest.approx(0.95, abs=0.05)  # the figure is 0.925, that of 0.4 to the digit
    assert right[768.0] == pytest.approx(0.68, abs=0.1)
    assert apart[768.0] == pytest.approx(0.48, abs=0.2)


def test_partial_correlation_is_that_of_residuals():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 5)) @ rng.normal(size=(5, 5))
    x -= x.mean(0)
    residual = x[:, :2] - x[:, 2:] @ np.linalg.lstsq(x[:, 2:], x[:, :2], rcond=None)[0]
    expected = np.corrcoef(residual.T)[0, 1]
    assert partial_correlation(np.corrcoef(x.T), 0, 1, [2, 3, 4]) == pytest.approx(expected, abs=1e-9)


def test_colliders_are_oriented_and_chains_are_not():
    collider = skeleton(attention_correlation(_attention({(0, 2): 0.8, (1, 2): 0.8, (2, 3): 0.8}, 4)), sensitivity=1e6)
    assert collider.directed == {(0, 2), (1, 2), (2, 3)}
    chain = skeleton(attention_correlation(_attention({(0, 1): 0.8, (1, 2): 0.8}, 3)), sensitivity=1e6)
    assert chain.edges == {(0, 1), (1, 2)}
    assert chain.directed == frozenset()


def test_node_order_does_not_matter():
    rng = np.random.default_rng(5)
    a = _attention(_random_dag(rng), 6)
    c = attention_correlation(a)
    order = rng.permutation(6)
    one, other = skeleton(c, sensitivity=768), skeleton(c[np.ix_(order, order)], sensitivity=768)
    assert {tuple(sorted((order[a], order[b]))) for a, b in other.edges} == {tuple(map(int, e)) for e in one.edges}


def test_explanations_of_a_planted_model_are_the_planted_columns():
    effects = np.array([0.0, 3.0, 0.0, -2.0, 0.2, 0.0])
    graph = Graph(6, frozenset({(0, 1), (1, 3)}))
    found = explanations(lambda there: float(effects @ there), graph, 0, tolerance=1.0, most=2)
    assert [(one.elements, one.change) for one in found] == [((1,), -3.0), ((3,), 2.0)]


def test_explanations_that_need_two():
    graph = Graph(4, frozenset())
    found = explanations(lambda there: float(there[1] or there[2]), graph, 0, tolerance=0.5, most=3)
    assert [one.elements for one in found] == [(1, 2)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: attention_correlation(np.zeros((2, 2))),
        lambda: attention_correlation(np.zeros((2, 2, 2))),
        lambda: skeleton([[1.0, 0.2], [0.5, 1.0]]),
        lambda: skeleton(np.eye(2), sensitivity=1.0),
        lambda: explanations(lambda _: 0.0, Graph(2, frozenset()), 5, tolerance=0.1),
    ],
)
def test_bad_input_is_named(call):
    with pytest.raises(InputError):
        call()
