"""Tensor fusion."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles import sentiment

from excora.models.base import Samples
from excora.models.sentiment.tfn import TFN, TFNOptions, outer
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {"audio_width": 3, "vision_width": 4, "text_width": 2, "lstm_width": 5, "fusion_width": 6}


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "vision"), ("text",), ("audio",)])
def test_it_is_the_network_of_the_description(reference, names):
    streams = {name: STREAMS[name] for name in names}
    network = away(TFN(streams, TFNOptions(reference=reference, **SMALL), targets=2))
    check_oracle(network, sentiment.tfn, batch(streams), whole=reference)


def test_padding_does_not_matter():
    check_padding(away(TFN(STREAMS, TFNOptions(**SMALL))), batch())


def test_it_has_the_published_number_of_parameters():
    network = TFN(MOSI)
    ends = network.low.numel() + network.high.numel()  # frozen parameters there
    assert count(network) + ends == 9_497_045
    assert network.body[1].in_features == 140_481


def test_the_text_runs_fastest():
    a, b = torch.randn(3, 2), torch.randn(3, 4)
    found = outer([a, b]).view(3, 3, 5)
    torch.testing.assert_close(found[:, 1:, 1:], a[:, :, None] * b[:, None])
    torch.testing.assert_close(found[:, 0, 1:], b)
    torch.testing.assert_close(found[:, 1:, 0], a)


class Read:
    """Features of one batch."""

    def __init__(self, inputs):
        self.inputs, self.sizes = inputs, np.ones(4, np.intp)

    def read(self, index):
        return {name: x[index] for name, x in self.inputs.items()}


def test_it_learns_the_range_and_the_statistics_of_the_training_part():
    inputs = {name: x.float() if x.is_floating_point() else x for name, x in batch(n=6).items()}
    target = np.array([[-2.0, 1.0], [1.5, 1.0], [np.nan, 1.0], [0.0, 1.0], [99.0, 1.0], [0.0, 1.0]], np.float32)
    network = TFN(STREAMS, TFNOptions(**SMALL), targets=2)
    network.learn(Samples(Read(inputs), target, np.arange(4)))
    assert (network.low.tolist(), network.high.tolist()) == ([-2.0, -3.0], [1.5, 3.0]), "one label alone has no range"
    means = inputs["audio"][:4].sum(1) / inputs["audio_length"][:4, None]
    norm = network.utterances["audio"].norm
    torch.testing.assert_close(norm.mean, means.mean(0))
    torch.testing.assert_close(norm.variance, means.var(0, correction=0))
    assert network.begin_at_zero(inputs)
    with torch.no_grad():
        assert network.eval()(inputs).prediction.abs().max() < 1e-6
