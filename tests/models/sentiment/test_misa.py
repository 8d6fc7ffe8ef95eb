"""MISA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles import misa as oracle

from excora.models.sentiment.misa import MISA, MISAOptions, Stacked, central_moments, difference
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count, samples, weights

SMALL = {"dim": 4, "feedforward": 6}


@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("audio", "vision")])
def test_it_is_the_network_of_the_description(names):
    streams = {name: STREAMS[name] for name in names}
    network = away(MISA(streams, MISAOptions(**SMALL), targets=2))
    check_oracle(network, lambda p, sample: oracle.MISA(p, sample).prediction, batch(streams))


def test_audio_and_vision_end_where_the_text_does_in_the_published_code():
    network = away(MISA(STREAMS, MISAOptions(reference=True, **SMALL)))

    def cut(p, sample):
        end = len(sample["text"])
        return oracle.MISA(p, {name: x[:end] for name, x in sample.items()}).prediction

    inputs = batch()
    for name in ("audio", "vision"):  # as long as their arrays: what is cut is real
        inputs[name] = torch.randn_like(inputs[name])
        inputs[f"{name}_length"] = torch.full_like(inputs[f"{name}_length"], STREAMS[name][1])
    check_oracle(network, cut, inputs)


def test_padding_does_not_matter():
    check_padding(away(MISA(STREAMS, MISAOptions(**SMALL))), batch())


def test_it_has_the_published_number_of_parameters_but_for_two_dead_layers():
    dead = 128 * 4 + 4 + 2 * 2 * 768  # sp_discriminator and tlayer_norm
    assert count(MISA(MOSI)) + dead == 1_138_033


def test_its_losses_are_those_of_the_description():
    network, inputs = away(MISA(STREAMS, MISAOptions(different=0.7, similar=0.4, rebuilding=0.3, **SMALL))), batch(n=6)
    with torch.no_grad():
        output = network(inputs)
    found = [oracle.MISA(weights(network), sample) for sample in samples(inputs)]
    parts = np.array([[*one.private, *one.shared] for one in found])
    np.testing.assert_allclose(output.compared.detach(), parts, atol=1e-12)
    apart, alike = oracle.losses(parts)
    losses = network.compare(output.compared, None, None)
    assert float(losses["different"]) == pytest.approx(0.7 * apart, rel=1e-10)
    assert float(losses["similar"]) == pytest.approx(0.4 * alike, rel=1e-6)  # smoothed
    squares = [np.square(np.array(one.again) - np.array(one.whole)).mean() for one in found]
    rebuilding = output.losses["rebuilding"]
    assert float(rebuilding.sum / rebuilding.count) == pytest.approx(0.3 * np.mean(squares), rel=1e-6)


def test_losses_of_few_samples_are_finite():
    for n in (1, 2):
        parts = torch.rand(n, 6, 4, dtype=torch.float64, requires_grad=True)
        sum(MISA(STREAMS, MISAOptions(**SMALL)).compare(parts, None, None).values()).backward()
        assert parts.grad.isfinite().all()
    same = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
    (central_moments(same, same) + difference(same, same)).backward()
    assert same.grad.isfinite().all()


def test_gradients_of_the_losses():
    a, b = (torch.rand(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(central_moments, (a, b))
    value = difference(a, b)
    (grad,) = torch.autograd.grad(value, a)
    centred = a.detach() - a.detach().mean(0)
    length = centred.norm(dim=1, keepdim=True) + 1e-6  # held, as published

    def held(x):
        y = b.detach() - b.detach().mean(0)
        return ((x - x.mean(0)) / length).T.matmul(y / (y.norm(dim=1, keepdim=True) + 1e-6)).square().mean()

    other = a.detach().requires_grad_()
    torch.testing.assert_close(grad, torch.autograd.grad(held(other), other)[0])


def test_no_samples_have_no_states():
    from excora.models.sentiment.parts import Sequence

    none = Sequence(torch.zeros(0, 4, 3), torch.zeros(0, dtype=torch.int64))
    assert Stacked(3)(none).shape == (0, 12)
