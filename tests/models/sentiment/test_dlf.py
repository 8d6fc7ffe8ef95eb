"""DLF."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from oracles import crossmodal as oracle

from excora.models.sentiment.dlf import DLF, DLFOptions
from models.sentiment.cases import (
    ALIGNED,
    MOSI_ALIGNED,
    STREAMS,
    away,
    batch,
    check_oracle,
    check_padding,
    count,
    samples,
    weights,
)  # fmt: skip

SMALL = {"dim": 6, "heads": 2, "layers": 1}


def run(p, sample, mode="all"):
    """The oracle's sample; eight steps, a kernel of five."""
    return oracle.DLF(p, sample, 2, mode, 4)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("names", [("text", "audio", "vision"), ("text", "vision")])
def test_it_is_the_network_of_the_description(reference, names):
    streams = {name: ALIGNED[name] for name in names}
    network = away(DLF(streams, DLFOptions(reference=reference, **SMALL), targets=2))
    inputs = batch(streams, equal=True)
    one = partial(run, mode="published" if reference else "all")
    check_oracle(network, lambda p, sample: one(p, sample).prediction, inputs, whole=reference)


def test_what_is_not_aligned_is_brought_to_the_steps_of_the_text():
    check_oracle(away(DLF(STREAMS, DLFOptions(**SMALL))), lambda p, sample: run(p, sample).prediction, batch())


def test_padding_does_not_matter():
    for streams, equal in ((ALIGNED, True), (STREAMS, False)):
        check_padding(away(DLF(streams, DLFOptions(**SMALL))), batch(streams, equal=equal))


def test_it_has_the_published_parameters_that_get_a_gradient():
    network = DLF(MOSI_ALIGNED)
    assert count(network) == 2_923_308 - 1_294_703
    assert network.summaries["text"].in_features == 2_300


def test_its_losses_are_those_of_the_description():
    network, inputs = (
        away(DLF(ALIGNED, DLFOptions(shaping=0.5, separating=0.3, **SMALL))),
        batch(ALIGNED, n=6, equal=True),
    )
    with torch.no_grad():
        output = network(inputs)
    found = [run(weights(network), sample) for sample in samples(inputs)]
    compared = np.array([np.concatenate([*one.summaries, *one.predictions]) for one in found])
    np.testing.assert_allclose(output.compared, compared, atol=1e-10)

    def mean(values):
        return float(np.concatenate([np.ravel(x) for x in values]).mean())

    def cosines(a, b):
        return np.maximum((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1), 0.0)

    for name in ("text", "vision", "audio"):
        expected = {
            "rebuilt": 0.5 * mean([np.square(one.again[name] - one.x[name]) for one in found]),
            "respecified": 0.5 * mean([np.square(one.respecified[name] - one.s[name]) for one in found]),
            "orthogonal": 0.15 * mean([cosines(one.s[name], one.c[name]) for one in found]),
        }
        for kind, value in expected.items():
            penalty = output.losses[f"{name} {kind}"]
            assert float(penalty.sum / penalty.count) == pytest.approx(value, rel=1e-8), (name, kind)


def test_branches_predict_as_well_and_equal_labels_are_alike():
    network, inputs = (
        away(DLF(ALIGNED, DLFOptions(shaping=0.5, separating=0.3, **SMALL))),
        batch(ALIGNED, n=6, equal=True),
    )
    with torch.no_grad():
        output = network(inputs)
    found = [run(weights(network), sample) for sample in samples(inputs)]
    target = np.array([0.0, 1.0, 0.0, 1.0, 2.5, -1.0])
    losses = network.compare(output.compared, torch.from_numpy(target)[:, None], None)
    predictions = np.array([np.concatenate(one.predictions) for one in found])
    each = np.abs(predictions - target[:, None]).mean(0)  # text, vision, audio, shared
    assert float(losses["branches"]) == pytest.approx(3 * each[0] + each[1] + each[2] + each[3], rel=1e-10)
    anchors = np.array([x for one in found for x in one.summaries])
    assert float(losses["hinge"]) == pytest.approx(0.15 * oracle.hinge(anchors, np.repeat(target, 3)), rel=1e-8)
