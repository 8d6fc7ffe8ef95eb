"""Early fusion."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from oracles import sentiment

from excora.models.sentiment.ef_lstm import EFLSTM, EFLSTMOptions
from models.sentiment.cases import ALIGNED, MOSI_ALIGNED, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {"lstm_width": 5, "layers": 2}
ORACLE = partial(sentiment.ef_lstm, layers=2)


@pytest.mark.parametrize("reference", [False, True])
def test_it_is_the_network_of_the_description(reference):
    network = away(EFLSTM(ALIGNED, EFLSTMOptions(reference=reference, **SMALL), targets=2), 0.5)
    check_oracle(network, ORACLE, batch(ALIGNED, equal=True), whole=reference)


@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "vision"), ("text",)])
def test_what_is_not_aligned_is_brought_to_the_steps_of_the_text(names):
    streams = {name: STREAMS[name] for name in names}
    check_oracle(away(EFLSTM(streams, EFLSTMOptions(**SMALL)), 0.5), ORACLE, batch(streams, n=9))


def test_padding_does_not_matter():
    for streams, equal in ((ALIGNED, True), (STREAMS, False)):
        check_padding(away(EFLSTM(streams, EFLSTMOptions(**SMALL))), batch(streams, equal=equal))


def test_it_has_the_published_number_of_parameters():
    assert count(EFLSTM(MOSI_ALIGNED)) == count(EFLSTM(MOSI_ALIGNED, EFLSTMOptions(reference=True))) == 885_605


def test_a_channel_of_the_norm_is_a_step():
    network, inputs = EFLSTM(ALIGNED, EFLSTMOptions(**SMALL)).double(), batch(ALIGNED, n=5, equal=True)
    ((norm, rows, real),) = network.normed(network.sequences(inputs))
    assert rows.shape == real.shape == (5 * 13, 8)
    norm.learn([(rows, real)])
    joined = torch.cat([inputs[name] for name in ALIGNED], 2)
    for t in range(8):
        there = joined[inputs["text_length"] > t, t]
        torch.testing.assert_close(norm.mean[t], there.mean())
        torch.testing.assert_close(norm.variance[t], there.var(correction=0))


def test_a_single_sample_is_a_batch():
    network = EFLSTM(ALIGNED, EFLSTMOptions(**SMALL)).double().train()
    assert network(batch(ALIGNED, n=1, equal=True)).prediction.shape == (1, 1)
