"""What a prediction hangs on: a small graph, the sets that move it, and what each element does alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from excora.diagnosis.explaining import Explained
from excora.report.numerals import figure
from excora.report.records import ExplanationRecord
from excora.report.sections import Made, Section, section
from excora.report.tables import Column, Table

#: Elements that a graph shows: those that matter most alone.
SHOWN = 16
WIDTH, HEIGHT = 480.0, 380.0
#: Letters of a label; a longer name is cut and shown whole where one points.
LETTERS = 18
KNOB = (
    "Lines are read from the attention, as a linear causal model: a hint, and often a wrong one. Its sensitivity N = "
    "{} is a knob and no sample size: a larger one keeps weaker lines. What an element does is not read from the graph "
    "but measured: the prediction without it, minus the prediction."
)


class Node(NamedTuple):
    """A place in the drawing."""

    name: str
    label: str
    x: float
    y: float
    kind: str  #: "target", "in" a set, or "out"
    end: str  #: of the label: "start" or "end"


class Edge(NamedTuple):
    """A line; with an arrow where colliders give its direction."""

    x1: float
    y1: float
    x2: float
    y2: float
    arrow: bool


@section("explanation", "What it hangs on", place=0, reads=(ExplanationRecord,))
def explanation(record: ExplanationRecord) -> Made:
    """A section for each sample, the knob explained in the first."""
    found = []
    for number, (id, one) in enumerate(record.rows.items()):
        nodes, edges = drawing(one)
        note = KNOB.format(figure(record.sensitivity, 3)) if number == 0 else ""
        size = {"width": WIDTH, "height": HEIGHT}
        values = {"nodes": nodes, "edges": edges, **size, "note": note, "number": number, "drawn": _drawn(one)}
        title = f"Sample {id}: {record.target} = {figure(one.prediction)}"
        found.append(
            Section(template="explanation.html", title=title, lead=one.sentence, values=values, tables=_tables(one, id))
        )
    return found


def _drawn(one: Explained) -> str:
    """What is in the drawing, in words."""
    every = len(one.names) <= SHOWN
    some = "" if every else f" Drawn are the {SHOWN} of {len(one.names)} elements that move it most."
    return f"{some} Lines are {'from the attention' if one.graph is not None else 'to what is in a set'}."


def _tables(one: Explained, id: str) -> list[Table]:
    ordered = sorted(zip(one.names, one.changes.tolist(), strict=True), key=lambda pair: -abs(pair[1]))
    alone = [Column("Left out"), Column("It moves by", figure)]
    found: list[Table] = [
        Table(f"Without each element alone, sample {id}", alone, [[name, x] for name, x in ordered], sortable=True)
    ]
    if one.sets:
        rows: list[list[Any]] = [[", ".join(one.named(e)), e.change] for e in one.ordered]
        found.insert(
            0, Table(f"Smallest sets that move it by more than {figure(one.tolerance)}, sample {id}", alone, rows)
        )
    return found


def drawing(one: Explained) -> tuple[list[Node], list[Edge]]:
    """The prediction in the middle, the elements that matter most around it."""
    inside = {node for e in one.sets for node in e.elements}
    order = sorted(range(1, len(one.names) + 1), key=lambda node: (node not in inside, -abs(one.changes[node - 1])))
    shown = sorted(order[:SHOWN])
    middle = (WIDTH / 2, HEIGHT / 2)
    nodes = {0: Node("prediction", "prediction", *middle, "target", "start")}
    for k, node in enumerate(shown):
        angle = 2 * math.pi * (k + 0.5) / len(shown) - math.pi / 2
        x, y = middle[0] + 0.22 * WIDTH * math.cos(angle), middle[1] + 0.42 * HEIGHT * math.sin(angle)
        kind, end = "in" if node in inside else "out", "start" if math.cos(angle) >= 0 else "end"
        name = one.names[node - 1]
        label = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"
        nodes[node] = Node(name, label, round(x, 1), round(y, 1), kind, end)
    graph = one.graph
    links = sorted((0, node) for node in inside) if graph is None else sorted(graph.edges)
    directed = frozenset() if graph is None else graph.directed
    edges = []
    for a, b in links:
        if a in nodes and b in nodes:
            first, last = (b, a) if (b, a) in directed else (a, b)
            ends = (nodes[first].x, nodes[first].y, nodes[last].x, nodes[last].y)
            edges.append(Edge(*ends, (first, last) in directed))
    return list(nodes.values()), edges
