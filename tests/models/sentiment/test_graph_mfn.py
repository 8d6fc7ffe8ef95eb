"""Graph-MFN."""

from __future__ import annotations

import pytest
import torch
from oracles.graph_mfn import graph_mfn

from excora.models.sentiment.graph_mfn import Graph, GraphMFN, GraphMFNOptions
from models.sentiment.cases import ALIGNED, MOSI_ALIGNED, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {
    "text_width": 5, "audio_width": 3, "vision_width": 4, "node_width": 4, "node_hidden": 6, "chat_hidden": 3,
    "memory_width": 7, "keep_hidden": 4, "write_hidden": 5, "head_width": 6,
}  # fmt: skip


@pytest.mark.parametrize("reference", [False, True])
def test_it_is_the_network_of_the_description(reference):
    network = away(GraphMFN(ALIGNED, GraphMFNOptions(reference=reference, **SMALL), targets=2))
    check_oracle(network, graph_mfn, batch(ALIGNED, equal=True), whole=reference)


def test_what_is_not_aligned_is_brought_to_the_steps_of_the_text():
    check_oracle(away(GraphMFN(STREAMS, GraphMFNOptions(**SMALL))), graph_mfn, batch())


@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "vision")])
def test_padding_does_not_matter(names):
    streams = {name: STREAMS[name] for name in names}
    check_padding(away(GraphMFN(streams, GraphMFNOptions(**SMALL))), batch(streams))


def test_it_has_the_published_number_of_parameters():
    network = GraphMFN(MOSI_ALIGNED)
    assert count(network.graph.nodes) == 208_656, "which are not registered there"
    assert count(network) == 2_110_624 + 208_656


def test_the_nodes_learn_unless_as_published():
    for reference in (False, True):
        network = GraphMFN(STREAMS, GraphMFNOptions(reference=reference, **SMALL))
        assert all(p.requires_grad != reference for p in network.graph.nodes.parameters())
        network.double()(batch()).prediction.sum().backward()
        assert all((p.grad is None) == reference for p in network.graph.nodes.parameters())
        assert all(p.grad is not None for p in network.graph.summary.parameters())


def test_a_graph_of_two_modalities_has_one_node_and_tau():
    graph = Graph([2, 3], GraphMFNOptions(**SMALL))
    assert graph.subsets == [(0, 1)]
    assert graph.inputs == [[(0,), (1,)], [(0,), (1,), (0, 1)]]
    assert graph(torch.randn(4, 6, 5)).shape == (4, 6, 4)
