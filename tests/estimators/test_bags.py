"""BagRegressor: lists of arrays and Ragged in, predictions and attention out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from torch import nn

from excora import Ragged
from excora.data.bags import BagSpec
from excora.data.table import TableSpec
from excora.errors import InputError
from excora.estimators import BagRegressor
from excora.models import models
from excora.models.base import seeded
from excora.models.pool import BagEncoder, TableEncoder
from excora.pooling import make_pool


def small(**changed):
    options = {"dim": 8, "epochs": 3, "learning_rate": 0.02, "batch_size": 32, "random_state": 0}
    return BagRegressor(**{**options, **changed})


def sacks(bags=60, seed=0, width=4):
    """Bags of 1 to 6 elements whose label is the first feature of their mean."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(1, width)) + 0.3 * rng.normal(size=(rng.integers(1, 7), width)) for _ in range(bags)]
    return x, 10 + 4 * np.array([bag[:, 0].mean() for bag in x])


def ragged(x):
    return Ragged.collate([torch.from_numpy(bag) for bag in x])


def test_it_learns():
    model = small(epochs=8, learning_rate=0.05).fit(*sacks(200))
    assert model.n_features_in_ == 4
    assert model.score(*sacks(100, seed=1)) > 0.9


def test_a_list_and_a_ragged_are_the_same_bags():
    x, y = sacks(30)
    model = small().fit(x, y)
    other = small().fit(ragged(x), y)
    assert np.array_equal(model.predict(x), other.predict(x))
    assert np.array_equal(model.predict(x), model.predict(ragged(x)))
    tensors = [torch.from_numpy(bag) for bag in x]
    assert np.array_equal(model.predict(x), model.predict(tensors))
    assert model.score(ragged(x), y) == model.score(x, y)


def test_bags_of_one_size_may_be_one_array():
    x = np.random.default_rng(0).normal(size=(20, 5, 3))
    model = small(epochs=1).fit(x, x.mean((1, 2)))
    np.testing.assert_array_equal(model.predict(x), model.predict(list(x)))


@pytest.mark.parametrize("pool", ["mean", "softmax", "gated", "eca-paper", "eca"])
def test_attention_is_the_share_of_each_element_in_the_pooled_value(pool):
    x, y = sacks(20)
    model = small(pool=pool, layers=0, start="none").fit(x, y)  # the head's prediction is then all there is
    found = model.attention(x[:5])
    assert [(len(w), len(e)) for w, e in found] == [(len(bag), len(bag)) for bag in x[:5]]
    prediction = model.predict(x[:5])
    for bag, (weights, effective), predicted in zip(x, found, prediction, strict=False):
        assert weights.sum() == pytest.approx(1, abs=1e-6)
        assert effective.sum() == pytest.approx(1, abs=1e-5)
        # Without an encoder the pooled value is the effective mean of the standardised elements.
        elements = model.preparation_.features(model._samples([bag], reset=False)).read(np.array([0]))
        value = torch.from_numpy(effective).float() @ elements["elements"][0]
        with torch.no_grad():
            expected = model.preparation_.unscale(model.network_.head(value)[None].numpy())
        assert expected.item() == pytest.approx(predicted, rel=1e-4, abs=1e-4)


def test_attention_with_gamma_one_is_plain():
    x, y = sacks(20)
    for weights, effective in small(pool="softmax").fit(x, y).attention(x):
        np.testing.assert_array_equal(weights, effective)


def test_equal_seeds_several_targets_and_clones():
    x, y = sacks(30)
    both = np.column_stack([y, -y])
    model = small().fit(x, both)
    assert model.predict(x).shape == (30, 2)
    assert np.array_equal(model.predict(x), clone(model).fit(x, both).predict(x))
    with pytest.raises(NotFittedError):
        clone(model).attention(x)


def test_cross_validation_of_lists_with_groups_and_weights():
    x, y = sacks(60)
    groups = np.repeat(np.arange(6), 10)
    params = {"groups": groups, "sample_weight": np.ones(60)}
    prediction = cross_val_predict(
        small(epochs=10, learning_rate=0.05), x, y, groups=groups, cv=GroupKFold(2), params=params
    )
    assert np.corrcoef(prediction, y)[0, 1] > 0.8
    search = GridSearchCV(small(epochs=1), {"pool": ["mean", "eca"]}, cv=2).fit(x, y)
    assert search.best_params_["pool"] in ("mean", "eca")


def test_a_large_bag_among_small_ones_is_fine():
    x, y = sacks(12)
    x[3] = np.random.default_rng(0).normal(size=(3000, 4))
    assert np.isfinite(small(epochs=1).fit(x, y).predict(x)).all()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: [*x[:5], np.zeros((3, 5)), *x[6:]], "bag 5.*width 4.*5"),
        (lambda x: [*x[:5], np.zeros((0, 4)), *x[6:]], "bag 5.*empty"),
        (lambda x: [*x[:5], np.full((2, 4), np.nan), *x[6:]], "bag 5.*nan"),
        (lambda x: [*x[:5], np.full((2, 4), -np.inf), *x[6:]], "bag 5.*inf"),
        (lambda x: [*x[:5], np.zeros(4), *x[6:]], "bag 5.*2.*dimension"),
        (lambda x: [*x[:5], [["a", "b", "c", "d"]], *x[6:]], "bag 5"),
        (lambda x: [*x[:5], [[1, 2], [3]], *x[6:]], "bag 5"),
        (lambda _: [], "no bags|at least one bag"),
        (lambda _: 3, "list of"),
        (lambda _: "bags", "list of"),
        (lambda _: np.zeros((20, 4)), "bag 0"),
        (lambda x: ragged([*x[:5], np.zeros((0, 4)), *x[6:]]), "bag 5.*empty"),
        (lambda _: Ragged(torch.zeros(20), torch.ones(20, dtype=torch.long)), "width|dimension"),
        (lambda x: x[:19], "19.*20"),
    ],
)
def test_bags_that_cannot_be_used_are_named(spoil, message):
    x, y = sacks(20)
    with pytest.raises(InputError, match=message):
        small().fit(spoil(x), y)


def test_the_width_is_that_of_training():
    x, y = sacks(20)
    model = small(epochs=1).fit(x, y)
    with pytest.raises(InputError, match=r"width 4.*3"):
        model.predict([bag[:, :3] for bag in x])
    with pytest.raises(InputError, match="negative"):
        model.fit(x, y, sample_weight=-np.ones(20))


@pytest.mark.parametrize("spec", [BagSpec(targets=2, width=4), TableSpec(targets=2, numeric=3)])
def test_a_head_has_as_many_hidden_layers_as_asked_for(spec):
    model = models["pool"]

    def start(**changed):
        with seeded(0):
            return model.network(spec, model.Options(dim=8, dropout=0.5, **changed), {})

    plain, deep = start(), start(head=2)
    assert isinstance(plain.head, nn.Linear)  # as it was when there was no choice, name by name
    assert [type(layer) for layer in deep.head] == [nn.Linear, nn.GELU, nn.Dropout] * 2 + [nn.Linear]
    assert [tuple(p.shape) for p in deep.head.parameters()] == [(8, 8), (8,), (8, 8), (8,), (2, 8), (2,)]
    first = {name: p for name, p in deep.state_dict().items() if not name.startswith("head.")}
    assert all(torch.equal(plain.state_dict()[name], p) for name, p in first.items())
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        options = model.Options(dim=8)
        BagEncoder(4, options) if spec.kind == "bags" else TableEncoder(3, (), options)
        make_pool("eca", 8)
        expected = nn.Linear(8, 2)
    assert torch.equal(plain.head.weight, expected.weight)


def test_a_hidden_layer_in_the_head_bends_and_is_kept(tmp_path):
    """|mean| of a bag is beyond a linear head on linear elements."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(1, 2)) + 0.1 * rng.normal(size=(rng.integers(1, 5), 2)) for _ in range(200)]
    y = np.array([abs(bag[:, 0].mean()) for bag in x])
    straight, bent = (small(layers=0, head=head, epochs=25, pool="mean").fit(x, y) for head in (0, 1))
    assert straight.score(x, y) < 0.3
    assert bent.score(x, y) > 0.8
    assert bent.verdict_.name
    bent.save(tmp_path / "bent")
    again = BagRegressor.load(tmp_path / "bent")
    assert again.head == 1
    assert np.array_equal(again.predict(x), bent.predict(x))


def test_bags_may_bring_their_validation_part():
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(n, 3)) for n in rng.integers(1, 6, 40)]
    y = np.array([bag[:, 0].mean() for bag in bags])
    model = BagRegressor(dim=8, epochs=2, random_state=0).fit(bags[:25], y[:25], eval_set=[(bags[25:], y[25:])])
    kept = model.history_[model.best_epoch_]["validation_pcc"]
    assert kept == pytest.approx(np.corrcoef(model.predict(bags[25:]), y[25:])[0, 1], abs=1e-5)
