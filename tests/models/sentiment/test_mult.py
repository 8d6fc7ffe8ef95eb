"""MulT."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from oracles import crossmodal as oracle

from excora.models.sentiment.mult import MulT, MulTOptions
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {"dim": 6, "heads": 2, "layers": 2}


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "vision")])
def test_it_is_the_network_of_the_description(reference, names):
    streams = {name: STREAMS[name] for name in names}
    network = away(MulT(streams, MulTOptions(reference=reference, **SMALL), targets=2))
    mode = "none" if reference else "all"
    check_oracle(network, partial(oracle.mult, heads=2, mode=mode), batch(streams), whole=reference)


def test_padding_does_not_matter():
    check_padding(away(MulT(STREAMS, MulTOptions(**SMALL))), batch())


def test_it_has_the_published_number_of_parameters():
    network = MulT(MOSI)
    assert count(network) == 2_571_551
    assert network.head.in_features == 300


def test_frames_keep_their_order_unless_as_published():
    """Without positions and with queries at the end of what they may see, keys may be exchanged."""
    streams = {"text": (6, 5), "audio": (3, 6)}
    inputs = batch(streams, n=2)
    inputs |= {"text_length": torch.tensor([5, 5]), "audio_length": torch.tensor([6, 6])}
    inputs["audio"] = torch.randn(2, 6, 3, dtype=torch.float64)
    turned = inputs | {"audio": inputs["audio"].flip(1)}
    for reference in (False, True):
        options = MulTOptions(reference=reference, dim=6, heads=2, layers=1, kernel=1)
        network = away(MulT(streams, options))
        moved = network.views["text"]["audio"]
        one, other = (network.convolutions["audio"].over(network.sequences(x)["audio"]) for x in (inputs, turned))
        text = network.convolutions["text"].over(network.sequences(inputs)["text"])
        last = [moved(text, keys).last() for keys in (one, other)]
        assert torch.allclose(*last) == reference
