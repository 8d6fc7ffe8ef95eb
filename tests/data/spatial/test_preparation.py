"""Spots prepared."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import samples_data

from excora.data import sources
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.spatial.vectors import Vectors
from excora.errors import InputError

TRAIN = np.arange(40)
WAYS = [
    {}, {"elements": "features", "neighbours": 2}, {"elements": "none", "feature": True, "window": 8, "field": 9.5},
    {"elements": "none", "window": 8},
]  # fmt: skip


@pytest.mark.parametrize("asked", WAYS, ids=str)
def test_json_and_the_matrix(asked):
    data = samples_data.spatial(targets=2)
    prepared = Preparation.fit(data, TRAIN, **asked)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict(), allow_nan=False)))
    assert again == prepared
    assert again.spec == prepared.spec
    assert again.matrix(data).shape == (70, len(again.matrix_names))
    np.testing.assert_array_equal(again.matrix(data), prepared.matrix(data))


def test_a_strangers_values():
    good = Preparation.fit(samples_data.spatial(), TRAIN).content.to_dict()
    for wrong in ({"elements": "x"}, {"scale": None}, {"window": -1}, {"field": float("nan")}, {"own": {"mean": []}}):
        with pytest.raises((ValueError, KeyError, TypeError)):
            sources["spatial"].load(good | wrong)


def test_a_model_that_asks_for_nothing():
    for asked in ({"elements": "none"}, {"elements": "all"}, {"neighbours": -1}):
        with pytest.raises(InputError, match=r"asked for none|elements are grid, features, none"):
            Preparation.fit(samples_data.spatial(), TRAIN, **asked)


def test_vectors_of_another_encoder():
    data = samples_data.spatial()
    prepared = Preparation.fit(data, TRAIN)
    slides = tuple(replace(one, vectors=Vectors(np.zeros((len(one), 3)), np.arange(len(one)), np.arange(len(one) + 1)))
                   for one in data.content.slides)  # fmt: skip
    with pytest.raises(InputError, match="had 6 features in training and have 3 now"):
        prepared.features(replace(data, content=replace(data.content, slides=slides)))


def test_spots_far_outside_the_training_range():
    data = samples_data.spatial()
    prepared = Preparation.fit(data, TRAIN)
    slide = data.content.slides[0]
    store = np.array(slide.vectors.store)
    store[3, 1] = 1e4
    moved = replace(slide, vectors=replace(slide.vectors, store=store))
    new = replace(data, content=replace(data.content, slides=(moved, *data.content.slides[1:])))
    found = prepared.examine(new).outside
    assert (found > 0).sum() >= 1
    assert found[(data.content.slide_of == 0) & (data.content.spot_of == 3)].tolist() == [1]


@pytest.mark.parametrize("scale", ["log1p", "minmax"])
def test_labels_of_new_slides_are_on_the_scale_of_training(folder, scale):
    data = read(folder, expression=scale, genes="2")
    train = np.flatnonzero(data.content.slide_of < 3)
    data = sources["spatial"].targeted(data, train)
    prepared = Preparation.fit(data, train)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    new = read(folder, labelled=False)
    np.testing.assert_allclose(again.known_labels(new), data.target)
    if scale == "minmax":
        assert (np.nanmin(data.target[train], 0), np.nanmax(data.target[train], 0)) == (
            pytest.approx([0, 0], abs=1e-6), pytest.approx([1, 1], abs=1e-6)
        )  # fmt: skip
