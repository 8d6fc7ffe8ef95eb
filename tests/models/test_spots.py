"""The model of spots: what it starts from, what exemplars bring, and spots with unequal numbers of neighbours."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import samples_data
import torch
from safetensors.torch import load, save

from excora.data.splits import Split
from excora.errors import InputError
from excora.models import Samples, models
from excora.models.files import restore
from excora.models.parts.start import summaries
from excora.models.spots import SpotsOptions, left_over
from excora.settings import Machine, Recipe, Setup
from excora.stats.ridge import left_out_ridge
from excora.training import train
from excora.training.building import Built, build
from excora.training.evaluation import predictions

PARTS = Split(np.arange(42), np.arange(42, 56), np.arange(56, 70))


def setup(start: str = "ridge", **options) -> Setup:
    recipe = Recipe(epochs=2, batch_size=16, start=start, correlation_weight=0.5)
    return Setup("spots", SpotsOptions(dim=8, dropout=0.0, **options), recipe, Machine(accelerator="cpu"))


def made(**options) -> Built:
    dataset = samples_data.spatial(targets=2)
    grouped = dataclasses.replace(dataset, group=dataset.content.slide_names)
    return build(grouped, PARTS.train, setup(**options), validation=PARTS.validation)


@pytest.mark.parametrize("exemplars", [0, 3])
def test_it_starts_as_the_ridge_of_each_gene(exemplars):
    built = made(exemplars=exemplars)
    assert built.start.kind == "ridge"
    found = predictions(built.network, built.features, PARTS.test, setup())
    with torch.no_grad():
        start = built.network.linear_start(built.features.read(PARTS.test))
    np.testing.assert_allclose(found, start, atol=1e-6)
    assert found.std(0).min() > 0.1


def test_training_moves_it_and_keeps_the_ridge_if_nothing_is_better():
    built = made(exemplars=3, neighbours=2)
    training = train(built.network, built.features, built.target, PARTS, setup().recipe, Machine(accelerator="cpu"))
    assert training.start["validation_pcc"] > 0.5
    assert training.best_epoch >= -1
    assert (training.best_epoch == -1) == (not training.network.head.weight.any())


def test_exemplars_bring_what_a_ridge_without_their_slide_leaves():
    dataset = samples_data.spatial(targets=2)
    built = made(exemplars=2)
    network, group = built.network, dataset.content.slide_names[PARTS.train]
    spec, y = built.preparation.spec, built.target[PARTS.train].astype(float)
    x = summaries(spec, built.preparation.features(dataset), PARTS.train)
    z = np.clip((x - x.mean(0)) / x.std(0), -5, 5)
    wanted = y - left_out_ridge(z, y, group=group).left_out
    np.testing.assert_allclose(network.bank.target, wanted, atol=1e-5)


def test_an_unknown_label_is_left_unknown():
    built = made()
    target = built.target.copy()
    target[3, 0] = np.nan
    found = left_over(built.preparation.spec, Samples(built.features, target, PARTS.train)).target
    assert np.isnan(found[3, 0])
    assert np.isfinite(found[3, 1])
    assert np.isnan(found[PARTS.test]).all()


def test_what_each_pool_weighs():
    output = made(exemplars=3, neighbours=5).network(made(exemplars=3, neighbours=5).features.read(PARTS.test))
    assert {name: pooled.weights.shape[1] for name, pooled in output.pooled.items()} == {
        "patches": 4, "neighbours": 5, "exemplars": 3,
    }  # fmt: skip
    alone = made(sees="features", neighbours=0)
    assert list(alone.network(alone.features.read(PARTS.test)).pooled) == ["patches"]


def test_moments_that_count_patches_are_refused():
    with pytest.raises(InputError, match="moments have no size here"):
        SpotsOptions(moments="attended+size")
    assert made(moments="attended+mean+spread").network.head.in_features == 6 * 8


def test_without_rerank_it_is_the_model_it_was():
    """The same weights, exemplars and predictions, also beside one that re-ranks, and a folder without the option."""
    plain, ranked = made(exemplars=3), made(exemplars=3, rerank=True)
    assert SpotsOptions.from_dict({"exemplars": 3}) == SpotsOptions(exemplars=3, rerank=False)
    before, after = plain.network.state_dict(), ranked.network.state_dict()
    assert {name for name in after if name not in before} == {
        name for name in after if name.startswith(("bank.company.", "bank.scale"))
    }
    assert all(torch.equal(t, after[name]) for name, t in before.items())
    assert plain.network.bank.company is None
    assert not torch.equal(plain.features.found, ranked.features.found)


def test_rerank_comes_back_from_files_and_goes_on_with_other_spots():
    dataset, options = samples_data.spatial(targets=2), SpotsOptions(dim=8, dropout=0.0, exemplars=3, rerank=True)
    built = made(exemplars=3, rerank=True)
    spec, network = built.preparation.spec, built.network
    again = restore("spots", spec, options, network.learned, load(save(network.state_dict())))
    fresh = again.look_up(built.preparation.features(dataset))
    assert torch.equal(fresh.found, built.features.found)
    samples = Samples(built.preparation.features(dataset), built.target, np.arange(10, 50))
    on, features = models["spots"].go_on(network, spec, samples, options)
    assert len(on.bank.target) == 40
    assert torch.equal(on.bank.company.reranker.inner.weight, network.bank.company.reranker.inner.weight)
    assert torch.equal(on.bank.scale, network.bank.scale)
    assert features.found.shape == (70, 3)


def test_rerank_without_exemplars_is_refused():
    with pytest.raises(InputError, match="none are read: say how many"):
        SpotsOptions(rerank=True)
