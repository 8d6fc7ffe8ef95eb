"""The model "pool": encoder, pool and head for bags and tables."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracles.rows import single, table
from torch import nn

from excora import BagRegressor
from excora.data.bags import BagSpec
from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models import Samples, models
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


def test_heads_and_moments_widen_what_the_head_reads():
    elements = {"elements": Ragged(torch.randn(6, 3), torch.tensor([2, 4]))}
    for options, width in (
        ({"pool_heads": 2}, 8),
        ({"pool_heads": 2, "pool_values": "shared"}, 16),
        ({"moments": "attended+mean+spread"}, 24),
        ({"moments": "attended+sum+size+number"}, 18),
        ({"pool_heads": 2, "pool_values": "shared", "moments": "attended+mean"}, 24),
    ):
        network = MODEL.network(BAGS, MODEL.Options(dim=8, **options), {"elements": 3.0})
        assert network.head.in_features == width
        assert network(elements).prediction.shape == (2, 2)
        deep = MODEL.network(BAGS, MODEL.Options(dim=8, head=1, **options), {"elements": 3.0})
        assert (deep.head[0].in_features, deep.head[-1].in_features) == (width, 8)


def test_the_usual_number_of_elements_is_that_of_training_and_only_where_it_matters():
    lengths = [2, 4, 6, 50]
    samples = Samples(SimpleNamespace(sizes=np.array(lengths)), np.zeros((4, 2), np.float32), np.arange(3))
    network, _ = MODEL.build(BAGS, samples, MODEL.Options(moments="attended+number"), seed=0)
    assert network.learned == {"elements": 4.0}
    assert network.pool.usual == 4.0
    plain, _ = MODEL.build(BAGS, samples, MODEL.Options(moments="attended+mean"), seed=0)
    assert plain.learned == {}


@pytest.mark.parametrize(
    "learned", [{}, {"elements": 0.0}, {"elements": float("nan")}, {"elements": "3"}, [], {"a": 2.0}]
)
def test_a_usual_number_that_is_none_is_refused(learned):
    options = MODEL.Options(moments="attended+sum")
    with pytest.raises(InputError, match="must be elements, a mean number"):
        MODEL.check_learned(learned, BAGS, options, dict.fromkeys("abc"))
    MODEL.check_learned({"elements": 2.5}, BAGS, options, dict.fromkeys("abc"))
    with pytest.raises(InputError, match="must be nothing"):
        MODEL.check_learned({"elements": 2.5}, BAGS, MODEL.Options(), dict.fromkeys("abc"))


def test_heads_that_a_pool_does_not_have_or_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match=r"pool 'mean' has one head, got pool_heads 2: take one of .*softmax"):
        MODEL.Options(pool="mean", pool_heads=2)
    with pytest.raises(InputError, match="pool_heads must divide the width of the elements, got 5 and 64"):
        MODEL.check(BAGS, MODEL.Options(pool_heads=5))
    with pytest.raises(InputError, match="got 2 and 3"):
        MODEL.check(BAGS, MODEL.Options(pool_heads=2, layers=0))
    MODEL.check(BAGS, MODEL.Options(pool_heads=2, layers=0, pool_values="shared"))
    with pytest.raises(InputError, match="joined by"):
        MODEL.Options(moments="mean")


def test_a_count_that_no_mean_can_see_is_learned_from_the_number_of_elements():
    rng = np.random.default_rng(0)
    bags = [np.ones((n, 1)) + 0.01 * rng.normal(size=(n, 1)) for n in rng.integers(1, 12, 90)]
    y = np.array([len(bag) for bag in bags], float)
    fit = {"dim": 8, "epochs": 30, "batch_size": 8, "learning_rate": 1e-2, "random_state": 0, "start": "none"}
    blind = BagRegressor(**fit).fit(bags, y).score(bags, y)
    seeing = BagRegressor(**fit, moments="attended+number").fit(bags, y).score(bags, y)
    assert blind < 0.5
    assert seeing > 0.95


@pytest.mark.parametrize("name", ["bochner", "mercer", "inverse-cdf", "none"])
@pytest.mark.parametrize("layers", [0, 1])
def test_the_time_of_an_element_is_encoded_and_none_leaves_it_out(name, layers):
    torch.manual_seed(0)
    spec, options = BagSpec(targets=1, width=3, time=1), MODEL.Options(time_encoding=name, layers=layers, pool="mean")
    MODEL.check(spec, options)
    network = MODEL.network(spec, options, {})
    x = torch.randn(2, 4, 3)
    later = x.clone()
    later[..., 1] += torch.randn(2, 4)
    flat = network({"elements": Ragged(x.flatten(0, 1), torch.tensor([4, 4]))}).prediction
    torch.testing.assert_close(network({"elements": x}).prediction, flat)
    assert torch.equal(network({"elements": later}).prediction, network({"elements": x}).prediction) == (name == "none")
    encoding = network.encoder.time
    told = x[..., [0, 2]] if encoding is None else torch.cat([x[..., [0, 2]], encoding(x[..., 1])], -1)
    torch.testing.assert_close(network.encoder({"elements": x}), network.encoder.blocks(told))


def test_elements_of_a_time_alone_are_refused():
    with pytest.raises(InputError, match="a feature beside their time"):
        MODEL.check(BagSpec(targets=1, width=1, time=0), MODEL.Options())
