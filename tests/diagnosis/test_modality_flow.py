"""Matrices whose flow is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from models.sentiment.cases import STREAMS, away, batch

from excora.diagnosis.modality_flow import brought, modality_flow
from excora.errors import InputError
from excora.models import models
from excora.models.sentiment.almt import ALMT, ALMTOptions
from excora.models.sentiment.mult import MulT, MulTOptions

KINDS = ["text"] * 6 + ["audio"] * 4


def test_uniform_attention_of_6_and_4():
    assert modality_flow(np.full((2, 10, 10), 0.1), KINDS).between == pytest.approx(2 * 6 * 4 / 100)


def test_blocks_have_no_flow():
    block = np.zeros((10, 10))
    block[:6, :6], block[6:, 6:] = 1 / 6, 1 / 4
    found = modality_flow(block, KINDS)
    assert found.between == pytest.approx(0.0)
    assert found.used() == {"text": pytest.approx(0.6), "audio": pytest.approx(0.4)}


def test_heads_count_alike_and_signs_do_not_cancel():
    rng = np.random.default_rng(0)
    one, other = rng.dirichlet(np.ones(10), size=(2, 10))
    found = modality_flow(np.stack([one, 5 * other]), KINDS)
    apart = [modality_flow(a, KINDS).between for a in (one, other)]
    assert found.between == pytest.approx(np.mean(apart))
    np.testing.assert_allclose(found.by_head, apart)
    signed = one.copy()
    signed[:, 0] *= -1
    assert modality_flow(signed, KINDS).between == pytest.approx(apart[0])


def test_padding_does_not_count():
    a = np.random.default_rng(1).dirichlet(np.ones(10), size=10)
    mask = np.array([True] * 4 + [False] * 2 + [True] * 3 + [False])
    kept = [kind for kind, there in zip(KINDS, mask, strict=True) if there]
    expected = modality_flow(a[np.ix_(mask, mask)], kept)
    np.testing.assert_allclose(modality_flow(a, KINDS, mask).share, expected.share)


@pytest.mark.parametrize(
    ("attention", "mask"), [(np.ones((3, 3)), None), (np.zeros((10, 10)), None), (np.ones((10, 10)), [True])]
)
def test_bad_input_is_named(attention, mask):
    with pytest.raises(InputError):
        modality_flow(attention, KINDS, mask)


# What comes through where each modality is asked apart.


@pytest.mark.parametrize("model", ["almt", "mult"])
def test_what_each_modality_brings_is_the_size_of_its_attention(model):
    kind = models[model]
    network = away(kind.Network(STREAMS, kind.Options(**kind.small)))
    inputs = batch(n=3)
    alone = [{name: x[k : k + 1] for name, x in inputs.items()} for k in range(3)]
    found = brought(network.bridges(), [lambda one=one: network(one) for one in alone])
    layers = {(one.layer, one.receiver) for one in found}
    assert layers == {(place.layer, place.receiver) for place in network.bridges()}
    for layer in layers:
        shares = np.array([one.by_head for one in found if (one.layer, one.receiver) == layer])
        np.testing.assert_allclose(shares.sum(0), 1.0)
        assert shares.shape == (2, network.options.heads)
        assert shares.min() > 0
        assert shares.std() > 0


def test_a_modality_whose_values_are_nothing_brings_nothing():
    network = away(ALMT(STREAMS, ALMTOptions(**models["almt"].small)))
    with torch.no_grad():
        network.guided[0].to_v["audio"].weight.zero_()
    found = brought(network.bridges(), [lambda: network(batch(n=1))])
    shares = {(one.layer, one.giver): one.share for one in found}
    assert shares["guided 1", "audio"] == 0.0
    assert shares["guided 1", "vision"] == pytest.approx(1.0)
    assert 0 < shares["guided 2", "audio"] < 1


def test_one_other_modality_and_no_call_say_nothing():
    network = MulT({"text": (6, 8), "audio": (3, 11)}, MulTOptions(**models["mult"].small)).double().eval()
    assert brought(network.bridges(), [lambda: network(batch(n=1))]) == []
    assert brought(away(ALMT(STREAMS)).bridges(), []) == []
