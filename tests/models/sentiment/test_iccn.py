"""Our reading of ICCN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles import iccn as oracle

from excora.models import models
from excora.models.sentiment.iccn import ICCN, ICCNOptions, canonical_correlation
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count, samples, weights

SMALL = {"dim": 3, "channels": 2}


@pytest.mark.parametrize("reference", [False, True])
def test_it_is_the_network_of_our_description(reference):
    network = away(ICCN(STREAMS, ICCNOptions(reference=reference, **SMALL), targets=2))
    check_oracle(network, oracle.iccn, batch(), whole=reference)


def test_padding_does_not_matter():
    check_padding(away(ICCN(STREAMS, ICCNOptions(**SMALL))), batch())


def test_it_says_that_it_is_our_reading():
    assert "our reading" in models["iccn"].says
    network = ICCN(MOSI)
    assert network.head.in_features == 832
    assert count(network) == 1_595_617


def test_the_pairs_are_made_to_correlate():
    network, inputs = away(ICCN(STREAMS, ICCNOptions(correlated=0.6, **SMALL))), batch(n=9)
    with torch.no_grad():
        output = network(inputs)
    pairs = np.array([oracle.pairs(weights(network), sample) for sample in samples(inputs)])
    np.testing.assert_allclose(output.compared, pairs, atol=1e-12)
    expected = -0.6 * oracle.canonical_correlation(pairs[:, 0], pairs[:, 1]) / 3
    losses = network.compare(output.compared, None, None)
    assert float(losses["correlated"]) == pytest.approx(expected, rel=1e-8)
    assert network.compare(output.compared[:3], None, None) == {}, "too few to say"


def test_canonical_correlations_know_no_linear_map():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(500, 3, dtype=torch.float64, generator=generator) * 30
    mixed = a @ torch.randn(3, 3, dtype=torch.float64, generator=generator) + 7
    assert float(canonical_correlation(a, mixed)) == pytest.approx(3.0, abs=1e-3)
    noise = torch.randn(500, 3, dtype=torch.float64, generator=generator)
    assert float(canonical_correlation(a, noise)) < 0.5


def test_gradients_of_the_correlation():
    a, b = (torch.randn(8, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(canonical_correlation, (a, b))
    flat = torch.ones(8, 2, requires_grad=True)
    canonical_correlation(flat, torch.randn(8, 2)).backward()
    assert flat.grad.isfinite().all()
