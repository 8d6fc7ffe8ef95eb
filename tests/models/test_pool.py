"""The model "pool": encoder, pool and head for bags and tables."""

from __future__ import annotations

import pytest
import torch
from oracles.rows import single, table
from torch import nn

from excora.data.bags import BagSpec
from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models import models
from excora.ragged import Ragged

MODEL = models["pool"]
BAGS, TABLE = BagSpec(targets=2, width=3), TableSpec(targets=2, numeric=2, categories=(3,))


def test_the_prediction_is_the_head_on_the_pooled_elements():
    torch.manual_seed(0)
    network = MODEL.network(BAGS, MODEL.Options(dim=8, layers=2, pool="softmax"), {})
    elements = Ragged(torch.randn(6, 3), torch.tensor([2, 4]))
    output = network({"elements": elements})
    pooled = network.pool(Ragged(network.encoder.blocks(elements.values), elements.lengths))
    torch.testing.assert_close(output.prediction, network.head(pooled.value))
    torch.testing.assert_close(output.pooled["pool"].weights, pooled.weights)
    even = network({"elements": elements.values.view(2, 3, 3)})
    assert even.prediction.shape == (2, 2)


def test_without_an_encoder_the_elements_are_pooled_as_they_are():
    network = MODEL.network(BAGS, MODEL.Options(layers=0, pool="mean"), {})
    assert [name for name, _ in network.named_parameters()] == ["head.weight", "head.bias"]
    x = torch.randn(4, 5, 3)
    torch.testing.assert_close(network({"elements": x}).prediction, network.head(x.mean(1)))


def test_the_number_of_parameters_of_a_small_table():
    spec = TableSpec(targets=1, numeric=2, categories=(3,))
    network = MODEL.network(spec, MODEL.Options(dim=8, layers=0, pool="mean"), {})
    assert sum(p.numel() for p in network.parameters()) == 89


@pytest.mark.parametrize("spec", [BAGS, TABLE], ids=["bags", "table"])
def test_a_head_has_as_many_hidden_layers_as_asked_for(spec):
    plain = MODEL.network(spec, MODEL.Options(dim=8), {})
    assert isinstance(plain.head, nn.Linear)
    deep = MODEL.network(spec, MODEL.Options(dim=8, head=2), {})
    assert [type(part) for part in deep.head] == [nn.Linear, nn.GELU, nn.Dropout] * 2 + [nn.Linear]


def test_biases_that_a_softmax_does_not_see_are_not_trained():
    network = MODEL.network(TABLE, MODEL.Options(dim=8, heads=2, layers=2, pool="softmax"), {})
    network(single(table(9, 2, (3,), missing=0.3))).prediction.square().sum().backward()
    frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
    assert frozen == {*(f"encoder.layers.{k}.self_attn.in_proj_bias" for k in range(2)), "pool.scorer.bias"}
    assert all(p.grad is not None for p in network.parameters() if p.requires_grad)


def test_heads_must_divide_the_width_of_a_table_and_bags_have_none():
    options = MODEL.Options(dim=6)
    with pytest.raises(InputError, match="heads must divide dim, got heads 4 and dim 6"):
        MODEL.check(TABLE, options)
    MODEL.check(BAGS, options)
    MODEL.check(TABLE, MODEL.Options(dim=6, layers=0))


def test_bags_are_scaled_in_one_way():
    assert MODEL.prepares(MODEL.Options()) == {}
    assert MODEL.prepares(MODEL.Options(scaling="quantile")) == {"scaling": "quantile"}
