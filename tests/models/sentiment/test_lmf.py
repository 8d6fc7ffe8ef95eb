"""Low-rank fusion."""

from __future__ import annotations

import pytest
import torch
from oracles import sentiment

from excora.models.sentiment.lmf import LMF, LMFOptions
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {"audio_width": 3, "vision_width": 4, "text_width": 2, "lstm_width": 5}


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "audio"), ("vision",)])
def test_it_is_the_network_of_the_description(reference, names):
    streams = {name: STREAMS[name] for name in names}
    network = away(LMF(streams, LMFOptions(reference=reference, **SMALL), targets=2), 0.5)
    check_oracle(network, sentiment.lmf, batch(streams), whole=reference)


def test_padding_does_not_matter():
    check_padding(away(LMF(STREAMS, LMFOptions(**SMALL))), batch())


def test_it_has_the_published_number_of_parameters():
    assert count(LMF(MOSI)) == count(LMF(MOSI, LMFOptions(reference=True))) == 505_071


def test_the_fusion_weights_learn_unless_as_published():
    ours, published = LMF(STREAMS), LMF(STREAMS, LMFOptions(reference=True))
    assert all(p.requires_grad for p in ours.parameters())
    assert {name for name, p in published.named_parameters() if not p.requires_grad} == {"weight", "bias"}


def test_without_fusion_weights_it_predicts_zero():
    network = LMF(STREAMS, LMFOptions(**SMALL)).double().eval()
    assert network.begin_at_zero(batch(), only_try=True)
    assert network(batch()).prediction.any()
    assert network.begin_at_zero(batch())
    assert not network(batch()).prediction.any()
    network(batch()).prediction.sum().backward()
    assert network.weight.grad.any()
    assert torch.equal(network.bias.grad, torch.full_like(network.bias, 4.0))
