"""Which elements does this prediction hang on: the graph of its attention, and what happens without each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from excora.diagnosis.causal import Array, Explanation, Graph, attention_correlation, explanations, skeleton
from excora.errors import InputError

#: Elements of which sets are tried: those that move the prediction most by themselves, and the nearest in the graph.
SEARCHED = 12
#: Nodes up to which a skeleton conditions on as many others as there are; beyond, on two.
SMALL = 10


@dataclasses.dataclass(frozen=True)
class Explained:
    """A prediction, node 0, and the elements that it is made of, nodes 1 to n."""

    names: tuple[str, ...]  #: of the elements
    prediction: float
    tolerance: float
    graph: Graph | None  #: None: the model has no attention between these elements
    changes: Array  #: (n,) what the prediction does without each element alone
    sets: tuple[Explanation, ...]  #: smallest sets without which it moves by more than the tolerance; nodes

    def named(self, one: Explanation) -> list[str]:
        """The elements of a set."""
        return [self.names[node - 1] for node in one.elements]

    @property
    def sentence(self) -> str:
        """What it hangs on, in a line."""
        if not self.sets:
            return f"Nothing, alone or in the sets tried, moves the prediction by more than {self.tolerance:.3g}."
        first = sorted(self.sets, key=lambda one: (len(one.elements), -abs(one.change)))[:3]
        words = [f"{' and '.join(self.named(one))} ({one.change:+.3g})" for one in first]
        return f"The prediction hangs on {'; '.join(words)}: without them it moves by the number given."


def explain(
    predict: Callable[[NDArray[np.bool_]], float],
    names: Sequence[str],
    attention: ArrayLike | None = None,
    *,
    tolerance: float,
    sensitivity: float = 768.0,
    most: int = 2,
) -> Explained:
    """What a prediction hangs on, each claim checked by leaving elements out.

    ``predict`` takes a mask of the n elements, True = it is there. ``attention`` (heads, n + 1, n + 1) or (n + 1, n +
    1): effective weights of the deepest layer, the token that is read first, then the elements; heads are averaged.
    ``sensitivity`` is N of Fisher's test: **a knob, no sample size**; a larger one keeps weaker edges. It changes which
    sets are tried first and what is drawn, never what masking finds of an element alone.

    >>> planted = lambda there: 3.0 * there[0] - 2.0 * there[2]
    >>> found = explain(planted, ["a", "b", "c"], tolerance=1.0)
    >>> [found.named(one) for one in found.sets], found.changes.tolist()
    ([['a'], ['c']], [-3.0, 0.0, 2.0])
    """
    n = len(names)
    graph = None if attention is None else _graph(np.asarray(attention, float), n, sensitivity)
    whole = float(predict(np.ones(n, bool)))
    changes = np.array([float(predict(np.arange(n) != i)) - whole for i in range(n)])
    near = set() if graph is None else set(graph.neighbours(0))
    order = sorted(range(1, n + 1), key=lambda node: (-abs(changes[node - 1]) - (node in near) * tolerance, node))
    star = Graph(n + 1, frozenset((0, node) for node in range(1, n + 1)))
    sets = explanations(
        lambda there: float(predict(there[1:])), graph or star, 0, tolerance=tolerance, most=min(most, n),
        candidates=sorted(order[:SEARCHED]),
    )  # fmt: skip
    return Explained(tuple(names), whole, tolerance, graph, changes, tuple(sets))


def _graph(attention: Array, elements: int, sensitivity: float) -> Graph:
    mean = attention.mean(0) if attention.ndim == 3 else attention
    if mean.shape != (elements + 1, elements + 1):
        raise InputError(
            f"attention must be of shape (heads, {elements + 1}, {elements + 1}): the token that is read, then the "
            f"{elements} elements; got {attention.shape}"
        )
    correlation = attention_correlation(mean)
    return skeleton(correlation, sensitivity=sensitivity, most_given=None if elements < SMALL else 2)


def beside_pool(attention: ArrayLike | None, weights: ArrayLike) -> Array:
    """Attention (n + 1, n + 1) with a first node that pools: Z_0 = sum_j w_j Z_j + U_0, where Z = A V.

    ``attention`` (n, n) between the elements, None: each is by itself; ``weights`` (n,), effective ones.

    >>> beside_pool(None, [0.25, 0.75]).tolist()
    [[1.0, 0.25, 0.75], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    w = np.asarray(weights, float)
    a = np.eye(len(w)) if attention is None else np.asarray(attention, float)
    found = np.zeros((len(w) + 1, len(w) + 1))
    found[0, 0], found[0, 1:], found[1:, 1:] = 1.0, w @ a, a
    return found
