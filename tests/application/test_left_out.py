"""Samples without some of their elements: words, patches, neighbours, elements of a bag, categories."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import samples_data
import torch

from excora.application.left_out import DRAWS, case_of
from excora.data.dataset import Dataset
from excora.data.table import Table
from excora.models import models
from excora.settings import Settings
from excora.training.building import build


def made(data, model, **options):
    """What case_of needs of a run, with random weights, and the prepared samples."""
    setup = Settings(model, **(models[model].small | {"start": "none"} | options)).settled(data.kind, 40)
    built = build(data, np.arange(40), setup)
    features = built.preparation.features(data)
    return SimpleNamespace(preparation=built.preparation, network=built.network.eval(), setup=setup), features


@torch.no_grad()
def changes(case):
    whole = case.predict(np.ones(len(case.names), bool))
    alone = [case.predict(np.arange(len(case.names)) != k) - whole for k in range(len(case.names))]
    return np.array(alone)


@torch.no_grad()
def test_a_word_goes_to_the_mean_of_training():
    run, features = made(samples_data.modalities(60), "streams", pool="mean", layers=0)
    run.network.head.weight.zero_()
    run.network.head.weight[0, 0] = 1.0  # the first number of the text
    case = case_of(run, features, 3, 0)
    inputs = features.read(np.array([3]))
    steps = int(inputs["text_length"])
    assert len(case.names) == len(set(case.names)) == steps
    expected = -inputs["text"][0, :steps, 0].double().numpy() / steps * run.preparation.std[0]
    np.testing.assert_allclose(changes(case), expected, atol=1e-5)
    assert case.attention.shape == (steps + 1, steps + 1)


@pytest.mark.parametrize("model", ["almt", "mult", "tfn"])
def test_words_of_models_with_and_without_a_pool(model):
    run, features = made(samples_data.modalities(60), model)
    with torch.no_grad():
        case = case_of(run, features, 0, 0)
    assert np.abs(changes(case)).max() > 0
    assert (case.attention is None) == (model != "almt")


@torch.no_grad()
def test_patches_and_neighbours_of_a_spot():
    run, features = made(samples_data.spatial(60), "spots", pool="mean", layers=0, neighbours=2)
    run.network.head.weight.zero_()
    run.network.head.weight[0, 0] = 1.0  # the first number of the own patches
    case = case_of(run, features, 5, 0)
    assert case.names == ["patch 1, 1", "patch 1, 2", "patch 2, 1", "patch 2, 2", "neighbour 1", "neighbour 2"]
    own = features.read(np.array([5]))["elements"][0, :4, 0].double().numpy()
    np.testing.assert_allclose(changes(case)[:4], -own / 4 * run.preparation.std[0], atol=1e-5)
    np.testing.assert_allclose(changes(case)[4:], 0.0, atol=1e-6)


@torch.no_grad()
def test_patches_of_a_picture():
    run, features = made(samples_data.spatial(60), "egn")
    case = case_of(run, features, 5, 0)
    assert case.names == ["patch 1, 1", "patch 1, 2", "patch 2, 1", "patch 2, 2"]
    assert np.abs(changes(case)).min() > 0


@torch.no_grad()
def test_a_bag_of_one_element_without_it_is_an_average_one():
    data = samples_data.bags(60)
    run, features = made(data, "pool", pool="mean", layers=0)
    one = int(np.flatnonzero(features.sizes == 1)[0])
    case = case_of(run, features, one, 0)
    assert case.names == ["element 0"]
    bias = run.preparation.unscale(run.network.head.bias.double().numpy()[None])[0, 0]
    assert case.predict(np.array([False])) == pytest.approx(bias, abs=1e-5)


def test_categories_are_drawn_as_often_as_training_had_them():
    frame = pd.DataFrame({"kind": ["usual"] * 36 + ["rare"] * 4, "x": np.arange(40.0)})
    target = (frame["kind"] == "rare").to_numpy(float)[:, None] + 0.01 * np.arange(40)[:, None]
    data = Dataset(np.arange(40).astype(str).astype(object), ("y",), target, Table(frame))
    run, _ = made(data, "ft-transformer", dim=8, heads=2)
    drawn = run.preparation.content.drawn(DRAWS)
    assert np.bincount(drawn[:, 0]).tolist() == [0, 14, 2]  # of 16: 36 of 40, and 4 of 40
