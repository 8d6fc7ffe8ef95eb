"""ALMT, and ECA in its streams."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from oracles import almt as oracle

from excora.errors import InputError
from excora.models import models
from excora.models.sentiment.almt import ALMT, ALMTOptions
from models.sentiment.cases import MOSI, STREAMS, away, batch, check_oracle, check_padding, count

SMALL = {"dim": 8, "tokens": 3, "heads": 2, "head_width": 5, "hidden": 6, "layers": 3, "fusion_layers": 2}
ORACLE = partial(oracle.almt, heads=2, layers=3, fusion=2)
POOLS = ("vision_pool", "audio_pool", "text_pool")
ECA = ("eca", "eca-paper")


def gain_of(network: ALMT, name: str, form: str, *, values: bool = False) -> oracle.Gain:
    """What ECA of a stream is, from its weights."""
    p = {key: x.detach().numpy() for key, x in network.readers[name].layer.extrapolation.state_dict().items()}
    wide = 10 if values else 8

    def tau(sigma: float) -> float:
        spread = sigma / np.sqrt(wide)
        if form == "eca-paper":
            return 0.5 + spread
        return float(np.exp(p["temperature.log_base"][0]) * (1 + spread) ** p["temperature.slope"][0])

    return oracle.Gain(partial(oracle.gamma, p, paper=form == "eca-paper"), tau, values)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "audio"), ("text", "vision")])
def test_it_is_the_network_of_the_description(reference, names):
    streams = {name: STREAMS[name] for name in names}
    network = away(ALMT(streams, ALMTOptions(reference=reference, **SMALL), targets=2))
    check_oracle(network, ORACLE, batch(streams), whole=reference)


@pytest.mark.parametrize("form", ECA)
@pytest.mark.parametrize("name", ["vision", "audio", "text"])
def test_eca_in_a_stream(name, form):
    network = away(ALMT(STREAMS, ALMTOptions(**SMALL, **{f"{name}_pool": form})))
    check_oracle(network, partial(ORACLE, gains={name: gain_of(network, name, form)}), batch())


@pytest.mark.parametrize("form", ECA)
def test_the_dispersion_may_be_that_of_the_values(form):
    network = away(ALMT(STREAMS, ALMTOptions(**SMALL, vision_pool=form, dispersion="values")))
    gains = {"vision": gain_of(network, "vision", form, values=True)}
    check_oracle(network, partial(ORACLE, gains=gains), batch())


def test_eca_starts_as_almt():
    networks = []
    for form in ("softmax", "eca"):
        torch.manual_seed(0)
        networks.append(ALMT(STREAMS, ALMTOptions(**SMALL)).double())
        if form == "eca":
            other = ALMT(STREAMS, ALMTOptions(**SMALL, **dict.fromkeys(POOLS, "eca"))).double()
            other.load_state_dict(networks[0].state_dict() | {
                name: x for name, x in other.state_dict().items() if "extrapolation" in name
            })  # fmt: skip
            networks[1] = other
    plain, ours = (network(batch()) for network in networks)
    torch.testing.assert_close(ours.prediction, plain.prediction, rtol=1e-12, atol=1e-12)
    for name in STREAMS:
        assert torch.equal(ours.pooled[name].details["gamma"], torch.ones(4, dtype=torch.float64))
        assert torch.equal(ours.pooled[name].details["temperature"], torch.ones(4, dtype=torch.float64))
    with torch.no_grad():
        networks[1].readers["vision"].layer.extrapolation.gain.out.bias.fill_(1.0)
    assert (networks[1](batch()).prediction - plain.prediction).abs().max() > 1e-4


def test_padding_does_not_matter():
    for form in ("softmax", *ECA):
        check_padding(away(ALMT(STREAMS, ALMTOptions(**SMALL, **dict.fromkeys(POOLS, form)))), batch())


def test_padding_is_attended_to_in_the_published_code():
    network = away(ALMT(STREAMS, ALMTOptions(**SMALL, reference=True)))
    inputs = batch()
    first = network(inputs).prediction
    inputs["vision"] = inputs["vision"].clone()
    inputs["vision"][1, int(inputs["vision_length"][1]) :] = 3.0
    assert (network(inputs).prediction - first).abs()[1] > 1e-6


def test_it_has_the_published_number_of_parameters():
    network = ALMT(MOSI)
    assert count(network) == 2_603_649
    vision = network.readers["vision"]
    assert count(vision) == 365_056
    paper = ALMT(MOSI, ALMTOptions(vision_pool="eca-paper"))
    assert count(paper) - count(network) == 32_897, "an MLP of 512, 64 and 1"


def test_only_what_a_softmax_cannot_see_is_left_untrained():
    network = ALMT(STREAMS, ALMTOptions(**SMALL))
    assert all(name.endswith("norm_k.bias") for name, p in network.named_parameters() if not p.requires_grad)


def test_what_the_tokens_looked_at():
    output = away(ALMT(STREAMS, ALMTOptions(**SMALL, vision_pool="eca")))(batch())
    assert list(output.pooled) == ["vision", "audio", "text"]
    for name, pooled in output.pooled.items():
        torch.testing.assert_close(pooled.weights.sum(1), torch.ones(4, dtype=torch.float64))
        assert pooled.weights.shape == (4, 3 + STREAMS[name][1])
        assert not pooled.weights[~pooled.real].any()
        torch.testing.assert_close(pooled.effective.sum(1), torch.ones(4, dtype=torch.float64))
    assert float(output.pooled["vision"].penalty.count) == 4
    assert float(output.pooled["audio"].penalty.sum) == 0


def test_frames_that_are_alike_have_no_dispersion():
    """Positions would hide it."""
    inputs = batch()
    inputs["vision"] = torch.where(inputs["vision"] != 0, 1.5, 0.0).double()
    found = {}
    for what in ("frames", "values"):
        network = away(ALMT(STREAMS, ALMTOptions(**SMALL, vision_pool="eca-paper", dispersion=what)))
        found[what] = network(inputs).pooled["vision"].details["temperature"]
    torch.testing.assert_close(found["frames"], torch.full_like(found["frames"], 0.5))
    assert (found["values"] > 0.6).all()


def test_heads_must_divide_the_width():
    class Spec:
        kind, modalities, names = "modalities", (1, 2), ("text", "audio")

        def need(self, *_: str) -> None:
            """All there."""

    with pytest.raises(InputError, match="heads must divide dim, got heads 3 and dim 8"):
        models["almt"].check(Spec(), ALMTOptions(dim=8, heads=3))
