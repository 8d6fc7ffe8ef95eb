"""Sequences, the norm of inputs, encoders of an utterance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.sentiment import lstm, resampled, subnet, under
from torch import nn

from excora.models.sentiment.parts import LSTM, InputNorm, Sequence, SubNet, TextNet, Utterances, aligned, input_norm
from models.sentiment.cases import STREAMS, away, batch, weights


def sequence(lengths: list[int], width: int = 2, longest: int | None = None) -> Sequence:
    """Random values."""
    values = torch.randn(len(lengths), longest or max(lengths), width, dtype=torch.float64)
    return Sequence(values, torch.tensor(lengths))


def test_a_sequence_ends_where_its_samples_do():
    given_ = sequence([3, 1], longest=5)
    clean = given_.clean()
    assert clean.values.shape == (2, 3, 2)
    assert clean.mask.tolist() == [[True] * 3, [True, False, False]]
    assert not clean.values[1, 1:].any()
    torch.testing.assert_close(clean.mean(), torch.stack([given_.values[0, :3].mean(0), given_.values[1, 0]]))
    assert torch.equal(clean.last(), torch.stack([given_.values[0, 2], given_.values[1, 0]]))
    assert given_.whole().length.tolist() == [5, 5]
    none = Sequence(torch.zeros(0, 4, 2), torch.zeros(0, dtype=torch.int64))
    assert none.clean().mean().shape == none.clean().last().shape == (0, 2)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=4))
def test_frames_are_brought_to_other_steps(lengths):
    frames = sequence([have for have, _ in lengths]).clean()
    steps = sequence([want for _, want in lengths], 3)
    found = aligned(frames, steps)
    assert torch.equal(found.length, steps.length)
    for k, (have, want) in enumerate(lengths):
        expected = resampled(frames.values[k, :have].numpy(), want)
        np.testing.assert_allclose(found.values[k, :want], expected, rtol=1e-12, atol=1e-12)
        assert not found.values[k, want:].any()


def test_what_is_aligned_stays_as_it_is():
    frames = sequence([4, 2], longest=6)
    found = aligned(frames, sequence([4, 2], 3))
    assert torch.equal(found.values, frames.values[:, :4])
    assert aligned(frames, sequence([4, 2], 3, longest=9)).values.shape == (2, 9, 2)


def test_the_norm_has_the_statistics_of_what_it_learned():
    norm, rows = InputNorm(3).double(), torch.randn(50, 2, dtype=torch.float64) * 3 + 100
    real = torch.rand(50, 2) < 0.7
    norm.learn([(rows[:20], real[:20]), (rows[20:], real[20:])])
    for j in range(2):
        torch.testing.assert_close(norm.mean[j], rows[real[:, j], j].mean())
        torch.testing.assert_close(norm.variance[j], rows[real[:, j], j].var(correction=0))
    assert (float(norm.mean[2]), float(norm.variance[2])) == (0.0, 1.0), "of which nothing was seen"
    batch_norm = nn.BatchNorm1d(2, momentum=1.0).double()
    batch_norm(rows)
    same = InputNorm(2).double()
    same.learn([(rows, torch.ones_like(real))])
    torch.testing.assert_close(same(rows), batch_norm(rows), msg="what BatchNorm does with all rows in a batch")


def test_a_constant_column_is_no_harm():
    norm = InputNorm(1)
    norm.learn([(torch.full((5, 1), 3.0), torch.ones(5, 1, dtype=torch.bool))])
    assert torch.equal(norm(torch.full((2, 1), 3.0)), torch.zeros(2, 1))


@pytest.mark.parametrize("reference", [False, True])
def test_the_norm_is_that_of_batches_in_the_published_code_alone(reference):
    assert isinstance(input_norm(3, reference=reference), nn.BatchNorm1d) == reference


def test_encoders_are_those_of_the_description():
    net, x = away(SubNet(3, 4, 0.5, reference=False)), torch.randn(5, 3, dtype=torch.float64)
    np.testing.assert_allclose(net(x).detach(), [subnet(weights(net), row) for row in x.numpy()], atol=1e-12)
    text, words = away(TextNet(3, 4, 2)), sequence([4, 2], 3).clean()
    p = weights(text)
    for k, length in enumerate((4, 2)):
        state = lstm(under(p, "lstm."), "_l0", words.values[k, :length].numpy())[-1]
        np.testing.assert_allclose(text(words)[k].detach(), p["out.weight"] @ state + p["out.bias"], atol=1e-12)


def test_vectors_come_in_the_order_of_the_published_models():
    net = Utterances(STREAMS, {"audio": 2, "vision": 3, "text": 4}, lstm=5, dropout=0.0, reference=False).double()
    inputs = {name: Sequence(batch()[name], batch()[f"{name}_length"]) for name in STREAMS}
    assert [vector.shape[1] for vector in net(inputs)] == [2, 3, 4]
    assert [rows.shape[1] for _, rows, _ in net.normed(inputs)] == [3, 4]


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_both_ways_are_those_of_packed_steps_and_so_are_their_gradients(dtype, near):
    """The way of a CPU, which in float32 is another library's, and that of other devices."""
    torch.manual_seed(0)
    network, clips = LSTM(3, 4, both=True).to(dtype), sequence([5, 2, 7, 7, 1], 3).clean()
    clips = clips._replace(values=clips.values.to(dtype).requires_grad_())
    weights_of = [clips.values, *network.parameters()]
    found = []
    for states, last in (network.both_ways(clips), network._packed(clips)):
        real = states.values[states.mask]
        found.append((real, last, torch.autograd.grad(real.sin().sum() + last.cos().sum(), weights_of)))
    torch.testing.assert_close(found[0], found[1], rtol=near, atol=near)
    plain = network(clips.values[3:4, :7])[1][0]
    torch.testing.assert_close(found[0][1][3], plain[:, 0], rtol=near, atol=near)
