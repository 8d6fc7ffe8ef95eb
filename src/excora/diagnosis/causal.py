"""Which elements does a prediction hang on? An attention matrix as a causal model: its skeleton, and explanations.

An attention output Z = A V is read as (I - G)^-1 U, a linear structural model with independent causes U, so that the
covariance of the tokens is A A'. Rows of A may have any positive scale: a softmax's normalisation cancels in

    corr = D^(-1/2) A A' D^(-1/2),     r_ij|Z from the inverse of corr over {i, j} and Z,

    Fisher's test:  sqrt(N - |Z| - 3) |1/2 log((1 + r)/(1 - r))|  against a normal law.

Rohekar, Gurwicz and Nisimov, "Causal interpretation of self-attention" (NeurIPS 2023). **N is a sensitivity knob and no
sample size**: the correlations are exact numbers of one matrix. A larger N keeps weaker edges.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from excora.errors import InputError

Array = NDArray[np.float64]
Edge = tuple[int, int]


def attention_correlation(attention: ArrayLike) -> Array:
    """corr (n, n) of an attention matrix A (n, n): the cosines of its rows. Effective weights may be negative.

    >>> attention_correlation([[1.0, 0.0], [1.0, 1.0]]).round(4).tolist()
    [[1.0, 0.7071], [0.7071, 1.0]]
    """
    a = np.asarray(attention, float)
    if a.ndim != 2 or not np.isfinite(a).all():
        raise InputError(f"an attention matrix must be finite of shape (n, n), got shape {a.shape}: pass one head")
    length = np.linalg.norm(a, axis=1, keepdims=True)
    if not (length > 0).all():
        raise InputError("a row of the attention matrix is all 0: leave padded elements out")
    rows = a / length
    return np.clip(rows @ rows.T, -1.0, 1.0)


def partial_correlation(correlation: Array, i: int, j: int, given: Sequence[int] = ()) -> float:
    """r_ij given other variables: -P_ij / sqrt(P_ii P_jj) with P the inverse of the correlation of all of them.

    >>> chain = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    >>> round(partial_correlation(chain, 0, 2), 6), abs(round(partial_correlation(chain, 0, 2, [1]), 6))
    (0.25, 0.0)
    """
    if not given:
        return float(correlation[i, j])
    rows = [i, j, *given]
    inverse = np.linalg.pinv(correlation[np.ix_(rows, rows)], hermitian=True)
    scale = inverse[0, 0] * inverse[1, 1]
    return float(np.clip(-inverse[0, 1] / np.sqrt(scale), -1.0, 1.0)) if scale > 0 else 0.0


@dataclasses.dataclass(frozen=True)
class Graph:
    """A skeleton with the arrows that colliders give: ``directed`` holds (cause, effect)."""

    nodes: int
    edges: frozenset[Edge]  #: (i, j), i < j, whatever their direction
    directed: frozenset[Edge] = frozenset()

    def neighbours(self, node: int) -> list[int]:
        """Nodes with an edge to this one, in order."""
        return sorted(b if a == node else a for a, b in self.edges if node in (a, b))


def skeleton(
    correlation: ArrayLike, *, sensitivity: float = 768.0, level: float = 0.01, most_given: int | None = None
) -> Graph:
    """The PC algorithm: drop an edge when some set of neighbours explains it away; then orient colliders and on.

    ``sensitivity`` is N of Fisher's test, ``level`` its p-value, ``most_given`` the size of the largest set tried. The
    stable variant: neighbours are those at the start of each size, so the order of the nodes does not matter.

    >>> sorted(skeleton([[1.0, 0.0, 0.6], [0.0, 1.0, 0.6], [0.6, 0.6, 1.0]]).directed)
    [(0, 2), (1, 2)]
    """
    c = np.asarray(correlation, float)
    if c.ndim != 2 or c.shape[0] != c.shape[1] or not np.allclose(c, c.T, atol=1e-8) or not np.isfinite(c).all():
        raise InputError(f"a correlation matrix must be square, finite and symmetric, got shape {c.shape}")
    if not (sensitivity > 3 and 0 < level < 1):
        raise InputError(f"sensitivity must exceed 3 and level lie between 0 and 1, got {sensitivity} and {level}")
    n, critical = len(c), norm.isf(level / 2)
    linked = {i: set(range(n)) - {i} for i in range(n)}
    apart: dict[Edge, tuple[int, ...]] = {}
    for size in range((n - 2 if most_given is None else most_given) + 1):
        before = {i: set(near) for i, near in linked.items()}
        if sensitivity - size - 3 <= 0 or not any(len(near) - 1 >= size for near in before.values()):
            break
        for i, j in itertools.combinations(range(n), 2):
            if j not in linked[i]:
                continue
            for given in _sets(before[i] - {j}, before[j] - {i}, size):
                r = partial_correlation(c, i, j, given)
                z = np.arctanh(min(abs(r), 1.0 - 1e-15))
                if np.sqrt(sensitivity - size - 3) * z < critical:
                    linked[i].discard(j)
                    linked[j].discard(i)
                    apart[i, j] = given
                    break
    edges = frozenset((i, j) for i in range(n) for j in linked[i] if i < j)
    return Graph(n, edges, _arrows(n, linked, apart))


def _sets(first: Iterable[int], second: Iterable[int], size: int) -> Iterable[tuple[int, ...]]:
    """Subsets of one size of the neighbours of either end, each once."""
    found = dict.fromkeys(itertools.combinations(sorted(first), size))
    return found | dict.fromkeys(itertools.combinations(sorted(second), size))


def _arrows(n: int, linked: dict[int, set[int]], apart: dict[Edge, tuple[int, ...]]) -> frozenset[Edge]:
    """Colliders i -> k <- j (i, j apart, not by k), then Meek's first three rules until nothing changes."""
    arrows: set[Edge] = set()
    for i, j in itertools.combinations(range(n), 2):
        if j not in linked[i]:
            for k in linked[i] & linked[j]:
                if k not in apart.get((i, j), ()) and (k, i) not in arrows and (k, j) not in arrows:
                    arrows |= {(i, k), (j, k)}
    changed = True
    while changed:
        changed = False
        for a in range(n):
            for b in linked[a]:
                if (a, b) not in arrows and (b, a) not in arrows and _forced(a, b, linked, arrows):
                    arrows.add((a, b))
                    changed = True
    return frozenset(arrows)


def _forced(a: int, b: int, linked: dict[int, set[int]], arrows: set[Edge]) -> bool:
    """Whether a - b must be a -> b: no new collider, no cycle, or both by way of two others."""
    into = [c for c in linked[a] if (c, a) in arrows]
    if any(c not in linked[b] for c in into if c != b):
        return True  # c -> a - b with c, b apart: b -> a would be a collider
    if any((a, c) in arrows and (c, b) in arrows for c in linked[a] & linked[b]):
        return True  # a -> c -> b: b -> a would be a cycle
    undirected = [
        c for c in linked[a] & linked[b] if (c, b) in arrows and (a, c) not in arrows and (c, a) not in arrows
    ]
    return any(d not in linked[c] for c, d in itertools.combinations(undirected, 2))


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A set of elements whose absence moves the prediction, and by how much."""

    elements: tuple[int, ...]
    change: float


def explanations(
    predict: Callable[[NDArray[np.bool_]], float],
    graph: Graph,
    target: int,
    *,
    tolerance: float,
    most: int = 3,
    candidates: Sequence[int] | None = None,
) -> list[Explanation]:
    """Smallest sets of elements without which the prediction moves by more than ``tolerance``, nearest first.

    ``predict`` takes a mask (n,), True = the element is there. Sets grow one element at a time, by size, then by their
    summed distance from ``target`` in the graph; a set that contains an explanation is none. ``candidates``: those that
    may be left out, all but the target by default.

    >>> graph = Graph(3, frozenset({(0, 2), (1, 2)}))
    >>> explanations(lambda there: 5.0 * there[0] + 0.1 * there[1], graph, 2, tolerance=1.0, most=1)
    [Explanation(elements=(0,), change=-5.0)]
    """
    if tolerance < 0 or not 0 <= target < graph.nodes:
        raise InputError(f"tolerance must not be negative and target one of {graph.nodes} nodes: {tolerance}, {target}")
    steps = _distances(graph, target)
    pool = [i for i in range(graph.nodes) if i != target] if candidates is None else list(candidates)
    whole = predict(np.ones(graph.nodes, bool))
    found: list[Explanation] = []
    for size in range(1, most + 1):
        for chosen in sorted(itertools.combinations(pool, size), key=lambda one: (sum(steps[i] for i in one), one)):
            if any(set(one.elements) <= set(chosen) for one in found):
                continue
            there = np.ones(graph.nodes, bool)
            there[list(chosen)] = False
            change = predict(there) - whole
            if abs(change) > tolerance:
                found.append(Explanation(tuple(chosen), float(change)))
    return found


def _distances(graph: Graph, start: int) -> list[float]:
    """Edges on the shortest way from ``start``; the number of nodes for those out of reach."""
    steps = [float(graph.nodes)] * graph.nodes
    steps[start], front = 0.0, [start]
    while front:
        ahead = []
        for node in front:
            for near in graph.neighbours(node):
                if steps[near] > steps[node] + 1:
                    steps[near] = steps[node] + 1
                    ahead.append(near)
        front = ahead
    return steps
