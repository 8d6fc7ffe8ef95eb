"""The transformer of MulT and DLF."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles import crossmodal as oracle

from excora.models.sentiment.crossmodal import Attention, Convolution, Encoder, Residual, sinusoids, up_to_now
from excora.models.sentiment.parts import Sequence
from models.sentiment.cases import away, weights


def sequence(*lengths: int, dim: int = 6) -> Sequence:
    """Random values."""
    return Sequence(torch.randn(len(lengths), max(lengths), dim, dtype=torch.float64), torch.tensor(lengths)).clean()


@pytest.mark.parametrize("dim", [2, 3, 6, 50])
def test_positions_are_sinusoids(dim):
    np.testing.assert_allclose(
        sinusoids(5, dim, torch.zeros((), dtype=torch.float64)), oracle.positions(5, dim), atol=1e-12
    )


def test_a_query_sees_up_to_its_moment():
    queries, keys = sequence(3, 2), sequence(5, 2)
    seen = up_to_now(queries, keys)
    assert seen[0, 0].tolist() == [[True] * 3 + [False] * 2, [True] * 4 + [False], [True] * 5]
    assert seen[1, 0, :2].tolist() == [[True, False, False, False, False], [True, True, False, False, False]]
    assert up_to_now(sequence(4, 4), sequence(7, 7)).shape == (1, 1, 4, 7), "one for all"
    assert up_to_now(sequence(9), sequence(3)).all(), "queries that outnumber the keys twice see all of them"


@pytest.mark.parametrize("positions", ["all", "published", "none"])
@pytest.mark.parametrize("crossed", [False, True])
def test_an_encoder_is_that_of_the_description(positions, crossed):
    network = away(Encoder(6, 2, 2, attention_dropout=0.3, embedding_dropout=0.3, positions=positions))
    x, other = sequence(5, 3), sequence(4, 7) if crossed else None
    x.values[0, 2, 0] = 0.0
    found = network(x, other).values.detach()
    for k, length in enumerate((5, 3)):
        seen = None if other is None else other.values[k, : other.length[k]].numpy()
        expected = oracle.encoder(weights(network), x.values[k, :length].numpy(), 2, positions, seen)
        np.testing.assert_allclose(found[k, :length], expected, atol=1e-10)


def test_gradients():
    network = away(Encoder(4, 2, 1, attention_dropout=0.0, embedding_dropout=0.0, positions="all"))
    x, other = sequence(3, 2, dim=4), sequence(2, 4, dim=4)

    def run(a, b):
        found = network(x._replace(values=a), other._replace(values=b))
        return found.values[found.mask]

    assert torch.autograd.gradcheck(run, (x.values.requires_grad_(), other.values.requires_grad_()))


def test_the_bias_of_the_keys_gets_no_gradient():
    layer = Attention(4, 2, 0.0)
    layer(torch.randn(2, 3, 4), torch.randn(2, 3, 4), None).square().sum().backward()
    q, k, v = layer.inner.bias.grad.chunk(3)
    assert q.any()
    assert v.any()
    assert not k.any()


def test_a_convolution_ends_where_a_sample_does():
    network, x = away(Convolution(6, 3, 3)), sequence(5, 2)
    found = network.over(x)
    assert found.length.tolist() == [3, 1]
    weight = network.weight.detach().numpy()
    for k, length in enumerate((5, 2)):
        expected = oracle.convolution(weight, x.values[k, :length].numpy())
        np.testing.assert_allclose(found.values[k, : len(expected)].detach(), expected, atol=1e-12)
    assert not found.values[1, 1:].any()
    assert network.over(sequence(1)).values.shape == (1, 1, 3), "shorter than the kernel"


def test_a_residual_layer():
    network, x = away(Residual(4, 0.5)), torch.randn(3, 4, dtype=torch.float64)
    np.testing.assert_allclose(network(x).detach(), oracle.residual(weights(network), x.numpy()), atol=1e-12)
