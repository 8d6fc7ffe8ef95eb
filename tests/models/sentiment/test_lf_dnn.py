"""Late fusion."""

from __future__ import annotations

import pytest
from oracles import sentiment

from excora.models.sentiment.lf_dnn import LFDNN, LFDNNOptions
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {"audio_width": 3, "vision_width": 4, "text_width": 2, "lstm_width": 5, "fusion_width": 6}


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("audio", "vision"), ("text",)])
def test_it_is_the_network_of_the_description(reference, names):
    streams = {name: STREAMS[name] for name in names}
    network = away(LFDNN(streams, LFDNNOptions(reference=reference, **SMALL), targets=2), 0.5)
    check_oracle(network, sentiment.lf_dnn, batch(streams), whole=reference)


def test_padding_does_not_matter():
    check_padding(away(LFDNN(STREAMS, LFDNNOptions(**SMALL))), batch())


def test_it_has_the_published_number_of_parameters():
    network = LFDNN(MOSI)
    assert count(network) == 597_171
    assert network.body[1].in_features == 400
