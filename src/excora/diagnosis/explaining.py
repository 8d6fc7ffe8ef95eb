"""Which elements does this prediction hang on: the graph of its attention, and what happens without each of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from excora.diagnosis.causal import Array, Explanation, Graph, attention_correlation, explanations, skeleton
from excora.errors import InputError

#: Elements of which sets are tried: those that move the prediction most by themselves, and the nearest in the graph.
SEARCHED = 12
#: N of Fisher's test, unless asked otherwise: a knob, no sample size. Of 100, 768 and 10,000 the one that told planted
#: columns from idle ones best (the study ``explanations``).
SENSITIVITY = 100.0
#: Nodes up to which a skeleton conditions on as many others as there are; beyond, on two.
SMALL = 10


def said(value: float, sign: str = "") -> str:
    """A number of three digits or all before the point, as people write it; ``sign`` "+" always shows it.

    >>> said(13263.2), said(0.032149), said(-2499.3, "+"), said(3.0, "+"), said(1.5e-9)
    ('13,263', '0.0321', '-2,499', '+3', '1.5e-09')
    """
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:{sign}.3g}"
    before = math.floor(math.log10(abs(value))) + 1 if value else 1
    shown = f"{value:{sign},.{max(3 - before, 0)}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


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
            return f"Nothing, alone or in the sets tried, moves the prediction by more than {said(self.tolerance)}."
        words = [f"{' and '.join(self.named(one))} ({said(one.change, sign='+')})" for one in self.ordered[:3]]
        rest = len(self.sets) - 3
        more = (
            "" if rest < 1 else " One more set moves it enough." if rest == 1 else f" {rest} more sets move it enough."
        )
        return f"The prediction hangs on {'; '.join(words)}: without them it moves by the number given.{more}"

    @property
    def ordered(self) -> list[Explanation]:
        """The sets, smallest first, those that move the prediction most before others of their size."""
        return sorted(self.sets, key=lambda one: (len(one.elements), -abs(one.change)))


def explain(
    predict: Callable[[NDArray[np.bool_]], float],
    names: Sequence[str],
    attention: Sequence[ArrayLike] | ArrayLike | None = None,
    *,
    tolerance: float,
    sensitivity: float = SENSITIVITY,
    most: int = 2,
) -> Explained:
    """What a prediction hangs on, each claim checked by leaving elements out.

    ``predict`` takes a mask of the n elements, True = it is there. ``attention``: effective weights of every layer in
    order, or of the deepest alone, each (heads, n + 1, n + 1) or (n + 1, n + 1): the token that is read first, then the
    elements; see :func:`reading`.
    ``sensitivity`` is N of Fisher's test: **a knob, no sample size**; a larger one keeps weaker edges. It changes which
    sets are tried first and what is drawn, never what masking finds of an element alone.

    >>> planted = lambda there: 3.0 * there[0] - 2.0 * there[2]
    >>> found = explain(planted, ["a", "b", "c"], tolerance=1.0)
    >>> [found.named(one) for one in found.sets], found.changes.tolist()
    ([['a'], ['c']], [-3.0, 0.0, 2.0])
    """
    n = len(names)
    graph = None if attention is None else _graph(reading(attention), n, sensitivity)
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
    if attention.shape != (elements + 1, elements + 1):
        raise InputError(
            f"attention must be of shape (heads, {elements + 1}, {elements + 1}): the token that is read, then the "
            f"{elements} elements; got {attention.shape}"
        )
    correlation = attention_correlation(attention)
    return skeleton(correlation, sensitivity=sensitivity, most_given=None if elements < SMALL else 2)


def reading(attention: Sequence[ArrayLike] | ArrayLike) -> Array:
    """A (n + 1, n + 1) of layers with a residual, heads averaged: who is read in the last, of what those before made.

    ::

        H = (A_(L-1) + I) ... (A_1 + I),     Z_0 = sum_j a_j H_j + U_0,     a the first row of A_L

    U_0 has the weight of all that is read: an element stands out by its share of it. DIFF: the paper has A_L alone, in
    which on planted models idle columns are linked to the prediction as often as planted ones. A matrix of one layer
    whose elements do not look at the first node is a reading already, such as :func:`beside_pool` gives.

    >>> reading([[0.2, 0.8], [0.5, 0.5]]).tolist()
    [[0.8, 0.8], [0.0, 1.0]]
    """
    given = attention if isinstance(attention, list | tuple) and np.ndim(attention[0]) > 1 else [attention]
    layers = [a.mean(0) if a.ndim == 3 else a for a in (np.asarray(one, float) for one in given)]
    if any(a.ndim != 2 or a.shape != (len(a), len(a)) or len(a) != len(layers[0]) for a in layers):
        raise InputError(
            f"attention must be of shape (heads, n + 1, n + 1) in every layer, got {[a.shape for a in layers]}"
        )
    if len(layers) == 1 and not layers[0][1:, 0].any():
        return layers[0]
    mixed = np.eye(len(layers[0]))
    for a in layers[:-1]:
        mixed = (a + np.eye(len(a))) @ mixed
    return _read((layers[-1][0] @ mixed)[1:], mixed[1:, 1:])


def beside_pool(attention: ArrayLike | None, weights: ArrayLike) -> Array:
    """Attention (n + 1, n + 1) with a first node that pools: Z_0 = sum_j w_j Z_j + U_0, where Z = A V.

    ``attention`` (n, n) between the elements, None: each is by itself; ``weights`` (n,), effective ones. U_0 as in
    :func:`reading`.

    >>> beside_pool(None, [0.6, 0.8]).tolist()
    [[1.0, 0.6, 0.8], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    w = np.asarray(weights, float)
    a = np.eye(len(w)) if attention is None else np.asarray(attention, float)
    return _read(w @ a, a)


def _read(read: Array, between: Array) -> Array:
    found = np.zeros((len(read) + 1, len(read) + 1))
    found[0, 0], found[0, 1:], found[1:, 1:] = np.linalg.norm(read) or 1.0, read, between
    return found
