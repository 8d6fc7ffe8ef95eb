"""The page of an explanation: who is drawn where, arrows, and a user's words as words."""

from __future__ import annotations

import numpy as np

from excora.diagnosis.causal import Explanation, Graph
from excora.diagnosis.explaining import Explained
from excora.report import ExplanationRecord, page_of_explanation
from excora.report.sections.explanation import SHOWN, drawing


def explained(n: int = 3, graph: Graph | None = None) -> Explained:
    names = tuple(f"c{i}<b>" for i in range(n))
    return Explained(names, 1.5, 0.5, graph, np.linspace(1.0, -0.1, n), (Explanation((1,), 1.0),))


def test_edges_and_arrows_are_those_of_the_graph():
    graph = Graph(4, frozenset({(0, 1), (1, 2)}), frozenset({(1, 0)}))
    nodes, edges = drawing(explained(graph=graph))
    assert [node.kind for node in nodes] == ["target", "in", "out", "out"]
    assert [edge.arrow for edge in edges] == [True, False]
    assert (edges[0].x2, edges[0].y2) == (nodes[0].x, nodes[0].y)


def test_without_a_graph_the_sets_are_drawn_and_a_crowd_is_cut():
    nodes, edges = drawing(explained(40))
    assert (len(nodes), len(edges)) == (SHOWN + 1, 1)


def test_the_page_escapes_names():
    record = ExplanationRecord(
        model="ft-transformer", target="y", data="r.csv", sensitivity=768.0, rows={"7": explained()}
    )
    page = page_of_explanation(record)
    assert "c0&lt;b&gt;" in page
    assert "c0<b>" not in page
    assert "Sample 7" in page
