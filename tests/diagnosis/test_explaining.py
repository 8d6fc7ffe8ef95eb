"""Explanations of planted models: the planted elements and no others, whatever the attention."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from oracles.rows import randomised, table
from torch import nn

from excora import ExtrapolativeAttention, extrapolate_
from excora.data.table import TableSpec
from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.explaining import beside_pool, explain, reading
from excora.errors import InputError
from excora.extrapolation import HeadGain
from excora.models.ft_transformer import FTTransformer


def test_the_sets_of_a_planted_additive_model_are_the_planted_columns():
    rng = np.random.default_rng(0)
    effects = np.zeros(8)
    effects[[1, 4, 6]] = [3.0, -2.0, 0.6]
    attention = rng.dirichlet(np.ones(9), size=(2, 9))
    attention = 2.0 * attention - 1.0 / 9  # an extrapolating layer: effective weights, some negative
    found = explain(lambda there: float(effects @ there), list("abcdefgh"), attention, tolerance=1.0, most=2)
    assert [found.named(one) for one in found.sets] == [["b"], ["e"]] or {
        tuple(found.named(one)) for one in found.sets
    } == {("b",), ("e",)}
    np.testing.assert_allclose(found.changes, -effects, atol=1e-12)
    assert "b (-3)" in found.sentence


def test_pairs_are_found_where_no_element_is_enough():
    found = explain(lambda there: 2.0 * max(there[0], there[2]), ["a", "b", "c"], tolerance=1.0)
    assert [found.named(one) for one in found.sets] == [["a", "c"]]
    assert found.graph is None


def test_nothing_is_said_where_nothing_moves():
    found = explain(lambda _: 1.0, ["a", "b"], tolerance=0.1)
    assert found.sets == ()
    assert found.sentence.startswith("Nothing")


def test_a_pool_beside_its_elements_hangs_on_the_heavy_ones():
    weights = np.array([0.6, 0.4, 0.0, 0.0])
    found = explain(lambda there: float(weights @ there), list("abcd"), beside_pool(None, weights), tolerance=0.3)
    assert found.graph.neighbours(0) == [1, 2]
    assert [found.named(one) for one in found.sets] == [["a"], ["b"]]


PLANTED = (1, 4)  # of six elements; the others are 0 and stay so


def _with_gain(model):
    """A gain of 3 in every head: effective weights that are clearly negative."""
    for part in model.modules():
        if isinstance(part, HeadGain):
            nn.init.zeros_(part.weight)
            nn.init.constant_(part.bias, math.log(9.0))
    return model.eval()


def _layer():
    """A token that reads, before six elements, through a layer that extrapolates."""
    layer = _with_gain(randomised(ExtrapolativeAttention(8, 2, batch_first=True), 0.7))
    return layer, lambda x: layer(x, x, x, need_weights=False)[0][0, 0]


def _converted():
    layers = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layers, 2, enable_nested_tensor=False).eval()
    extrapolate_(model, layers="all")
    return _with_gain(randomised(model, 0.4)), lambda x: model(x)[0, 0]


@pytest.mark.parametrize("host", [_layer, _converted])
def test_elements_that_an_extrapolating_or_converted_model_reads(host):
    torch.manual_seed(0)
    model, read = host()
    x = torch.zeros(1, 7, 8)
    x[0, 0], x[0, [1 + j for j in PLANTED]] = torch.randn(8), torch.randn(2, 8)
    weigh = torch.randn(8)

    def predict(there):
        with torch.no_grad():
            kept = torch.cat([torch.ones(1), torch.from_numpy(there).float()])
            return float(read(x * kept[:, None]) @ weigh)

    attention = attention_maps(model, lambda: read(x))[-1][0]
    assert (attention < 0).float().mean() > 0.05
    found = explain(predict, list("abcdef"), attention, tolerance=1e-3)
    assert {tuple(found.named(one)) for one in found.sets} == {("b",), ("e",)}
    assert found.graph.nodes == 7


@pytest.mark.parametrize("attention", ["softmax", "eca"])
def test_columns_that_an_ft_transformer_reads(attention):
    model = FTTransformer(TableSpec(targets=1, numeric=6), dim=8, heads=2, attention=attention)
    model = randomised(model, 0.5).eval()
    with torch.no_grad():
        model.encoder.tokens.weight[[j for j in range(6) if j not in PLANTED]] = 0.0
    row = {k: x[:1] for k, x in table(1, 6).items()} | {"missing": torch.zeros(1, 6, dtype=torch.bool)}

    def predict(there):
        with torch.no_grad():
            return float(model(row | {"numeric": (row["numeric"] * torch.from_numpy(there)).float()}).prediction)

    weights = attention_maps(model, lambda: model(row | {"numeric": row["numeric"].float()}))[-1][0]
    found = explain(predict, list("abcdef"), weights, tolerance=1e-3)
    assert {tuple(found.named(one)) for one in found.sets} == {("b",), ("e",)}
    assert found.graph.nodes == 7


def test_numbers_are_said_as_people_write_them():
    found = explain(lambda there: 13263.4 * there[0], ["price"], tolerance=1.0)
    assert found.sentence == "The prediction hangs on price (-13,263): without them it moves by the number given."


def test_a_reading_is_of_what_the_layers_before_made():
    rng = np.random.default_rng(1)
    first, last = rng.dirichlet(np.ones(4), size=(2, 4)), rng.dirichlet(np.ones(4), size=4)
    mixed = first.mean(0) + np.eye(4)
    found = reading([first, last])
    np.testing.assert_allclose(found[0, 1:], (last[0] @ mixed)[1:], atol=1e-12)
    np.testing.assert_allclose(found[1:, 1:], mixed[1:, 1:], atol=1e-12)
    assert found[0, 0] == pytest.approx(np.linalg.norm(found[0, 1:]))
    beside = beside_pool(rng.dirichlet(np.ones(3), size=3), [0.2, 0.3, 0.5])
    np.testing.assert_array_equal(reading(beside), beside)


def test_an_element_that_is_read_more_than_others_is_linked():
    last = np.full((6, 6), 1 / 6)
    last[0] = [0.1, 0.6, 0.1, 0.1, 0.05, 0.05]
    found = explain(lambda _: 0.0, list("abcde"), last, tolerance=1.0)
    assert found.graph.neighbours(0) == [1]


def test_attention_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"\(heads, 3, 3\)"):
        explain(lambda _: 0.0, ["a", "b"], np.eye(2), tolerance=1.0)
    with pytest.raises(InputError, match="in every layer"):
        reading([np.ones((2, 2)), np.ones((3, 3))])
