"""A trained network on samples: one loop in bounded memory, attention sample by sample, scores of known labels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import samples_data
import torch

from excora.data.table import TableFeatures
from excora.models import Output
from excora.pooling import ECAPool, Pooled
from excora.ragged import Ragged
from excora.reduce import Penalty
from excora.settings import Machine, Recipe
from excora.training import evaluation
from excora.training.batches import Rows
from excora.training.evaluation import (
    Attention,
    adds_surely,
    answers,
    attention,
    group_scores,
    outputs,
    predictions,
    scores,
)
from training.samples import PARTS, TINY, prepared


def moved(dim: int = 3) -> ECAPool:
    torch.manual_seed(1)
    pool = ECAPool(dim)
    with torch.no_grad():
        for parameter in pool.extrapolation_parameters():
            parameter.add_(torch.randn_like(parameter))
    return pool


@pytest.mark.parametrize("limit", [1, 9, 10_000])
def test_memory_is_bounded_and_changes_nothing(limit):
    data, setup = prepared(), TINY.settled("bags", 43)
    network = data.network(setup)
    index = PARTS.test[::-1].copy()
    pieces = list(outputs(network, data.features, index, max_elements=limit))
    assert np.concatenate([piece for piece, _ in pieces]).tolist() == index.tolist()
    assert all(len(piece) == 1 or data.features.sizes[piece].sum() <= limit for piece, _ in pieces)
    with torch.no_grad():
        whole = network.eval()(data.features.read(index)).prediction
    torch.testing.assert_close(torch.cat([output.prediction for _, output in pieces]), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(predictions(network, data.features, index, setup), whole, rtol=1e-5, atol=1e-6)
    double = next(iter(outputs(network.double(), data.features, index, max_elements=limit, double=True)))[1]
    assert double.prediction.dtype == torch.float64


def test_an_answer_a_sample_in_order_with_what_each_pool_did():
    data, setup = prepared(), TINY.settled("bags", 43)
    network = data.network(setup)
    found = list(answers(network, data.features, PARTS.test, setup))
    assert [answer.position for answer in found] == PARTS.test.tolist()
    for answer in found:
        looked = answer.attention["pool"]
        assert len(looked.weight) == data.features.sizes[answer.position]
        assert looked.weight.sum() == pytest.approx(1, abs=1e-5)
        alone = network({"elements": data.features.read(np.array([answer.position]))["elements"]})
        np.testing.assert_allclose(answer.prediction, alone.prediction[0].detach(), atol=1e-5)
        np.testing.assert_allclose(looked.effective, alone.pooled["pool"].effective[0].detach(), atol=1e-5)


@torch.no_grad()
def test_attention_of_padded_and_ragged_bags_ends_with_the_last_real_element():
    pool, h = moved(), torch.randn(4, 5, 3)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]], dtype=torch.bool)
    padded = attention(pool(h, mask))
    assert [len(one.weight) for one in padded] == [5, 3, 0, 2]
    flat = attention(pool(Ragged(h[mask], mask.sum(1))))
    assert [len(one.weight) for one in flat] == [5, 2, 0, 2]
    for a, b, real in zip(padded, flat, mask, strict=True):
        np.testing.assert_allclose(a.effective[real[: len(a.effective)].numpy()], b.effective, atol=1e-6)
        assert a.gamma == pytest.approx(b.gamma)
        assert a.temperature == pytest.approx(b.temperature)
    assert padded[1].gamma != 1
    whole = attention(pool(h))
    assert [len(one.weight) for one in whole] == [5] * 4
    nothing = attention(pool(h[:, :0], mask[:, :0]))
    assert [len(one.weight) for one in nothing] == [0] * 4


def test_a_pool_without_gain_has_none_and_one_with_weights_of_its_own_keeps_them():
    weights, own = torch.tensor([[0.5, 0.5]]), torch.tensor([[1.5, -0.5]])
    nothing = Penalty(torch.zeros(()), torch.zeros(()))
    (plain,) = attention(Pooled(torch.zeros(1, 3), weights, nothing, {}))
    assert plain.gamma is plain.temperature is None
    np.testing.assert_array_equal(plain.effective, plain.weight)
    (signed,) = attention(Pooled(torch.zeros(1, 3), weights, nothing, {"effective": own}))
    assert signed.effective.tolist() == [1.5, -0.5]


def test_the_effective_number_of_elements():
    even = Attention(np.full(4, 0.25, np.float32), np.zeros(4), None, None)
    one = Attention(np.array([0.0, 1.0], np.float32), np.zeros(2), None, None)
    assert even.effective_elements == pytest.approx(4)
    assert one.effective_elements == pytest.approx(1)
    assert Attention(np.zeros(0, np.float32), np.zeros(0), None, None).effective_elements == pytest.approx(1)


def test_scores_are_over_known_labels_and_undefined_ones_are_not_numbers():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(60, 3))
    prediction = target + 0.5 * rng.normal(size=(60, 3))
    target[::3, 1], target[:, 2] = np.nan, np.nan
    found = scores(prediction, target, ("a", "b", "c"), None)
    for k, name in enumerate("ab"):
        known = ~np.isnan(target[:, k])
        x, y = prediction[known, k], target[known, k]
        assert found[name]["pcc"] == pytest.approx(np.corrcoef(x, y)[0, 1])
        assert found[name]["mse"] == pytest.approx(np.square(x - y).mean())
        assert found[name]["mae"] == pytest.approx(np.abs(x - y).mean())
        assert found[name]["low"] < found[name]["pcc"] < found[name]["high"]
    assert all(np.isnan(value) for value in found["c"].values())


def test_scores_within_groups():
    data = samples_data.table(targets=2)
    rng = np.random.default_rng(0)
    target, group = data.target.copy(), np.repeat(["a", "b", "c"], [30, 38, 2])
    prediction = target + rng.normal(size=target.shape)
    target[:30, 1], target[68:] = np.nan, np.nan
    found = {row["group"]: row for row in group_scores(prediction, target, group)}
    assert [row["n"] for row in found.values()] == [30, 38, 2]
    assert found["a"]["pcc"] == pytest.approx(np.corrcoef(prediction[:30, 0], target[:30, 0])[0, 1])
    assert found["a"]["mse"] == pytest.approx(np.square(prediction[:30, 0] - target[:30, 0]).mean())
    both = [np.corrcoef(prediction[30:68, k], target[30:68, k])[0, 1] for k in range(2)]
    assert found["b"]["pcc"] == pytest.approx(np.mean(both))
    assert np.isnan([found["c"]["pcc"], found["c"]["mse"]]).all()


class Line(torch.nn.Module):
    """A stand-in for what a network starts from."""

    def forward(self, inputs):
        return inputs["numeric"][:, :1] * 0.0


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_a_network_adds_to_its_ridge_for_sure_if_its_gain_is_two_paired_standard_errors(noise, monkeypatch):
    n = 40
    generator = np.random.default_rng(0)
    y = generator.normal(size=(n, 1)).astype(np.float32)
    y[3] = np.nan
    said = np.nan_to_num(y) + noise * generator.normal(size=(n, 1)).astype(np.float32)
    weight = generator.uniform(0.5, 2.0, n).astype(np.float32)

    def some(*_, **__):
        for piece in np.array_split(np.arange(n), 3):
            yield piece, Output(torch.from_numpy(said[piece]))

    monkeypatch.setattr(evaluation, "outputs", some)
    features = TableFeatures(np.zeros((n, 1), np.float32), np.zeros((n, 1), bool), np.zeros((n, 0), np.int64))
    network = SimpleNamespace(linear_start=Line())
    found = adds_surely(network, Rows(features, y, weight), np.arange(n), Recipe(), Machine())
    gain = weight * np.where(np.isnan(y[:, 0]), 0.0, (y**2 - (said - y) ** 2)[:, 0])
    assert found == (gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(n)) == (noise < 1)
