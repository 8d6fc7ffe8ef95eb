"""Batches of spots: vectors, neighbours, places, windows."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import samples_data
import torch

from excora.data.preparation import Preparation
from excora.data.spatial.spots import SpotBags, vectors_of
from excora.data.spatial.vectors import Vectors
from excora.errors import InputError

TRAIN = np.arange(40)


@pytest.fixture(scope="module")
def data():
    return samples_data.spatial()


def test_elements_are_own_patches_then_neighbours(data):
    content = data.content
    bags = SpotBags(content, grid=True, neighbours=2)
    for place in (0, 5, 33):
        slide, spot = content.slides[content.slide_of[place]], int(content.spot_of[place])
        near = slide.nearest(np.array([spot]), 2)[0]
        wanted = np.concatenate([slide.vectors.grid[spot], slide.vectors.store[near]])
        np.testing.assert_array_equal(bags.read(place), wanted)
        offsets = bags.offsets(np.array([place]))
        np.testing.assert_allclose(offsets[:4], [[-0.25, -0.25], [0.25, -0.25], [-0.25, 0.25], [0.25, 0.25]])
        np.testing.assert_allclose(offsets[4:], (slide.coords[near] - slide.coords[spot]) / slide.pitch, rtol=1e-6)
        np.testing.assert_allclose(bags.positions(place), offsets * slide.pitch + slide.coords[spot])
    some = np.array([33, 0, 33, 7])
    np.testing.assert_array_equal(bags.gather(some), np.concatenate([bags.read(k) for k in some]))


def test_a_batch(data):
    asked = {"elements": "grid", "neighbours": 3, "window": 8, "field": 12.0, "feature": True}
    features = Preparation.fit(data, TRAIN, **asked).features(data)
    inputs = features.read(np.array([4, 60]))
    shapes = {name: tuple(part.shape) for name, part in inputs.items()}
    assert shapes == {
        "elements": (2, 7, 6), "places": (2, 7, 2), "own": (2,), "feature": (2, 6), "window": (2, 3, 8, 8),
        "position": (2, 2), "slide": (2,),
    }  # fmt: skip
    slide, spot = data.content.slides[data.content.slide_of[60]], data.content.spot_of[60]
    pixels = slide.picture.window(*slide.coords[spot], 12.0, 8)
    torch.testing.assert_close(inputs["window"][1], torch.tensor(pixels).permute(2, 0, 1) / 127.5 - 1)
    light = features.light().read(np.array([4, 60]))
    assert set(light) == {"feature", "position", "slide"}
    torch.testing.assert_close(light["feature"], inputs["feature"])
    again = pickle.loads(pickle.dumps(features)).read(np.array([4, 60]))
    torch.testing.assert_close(again["window"], inputs["window"])


def test_scales_are_of_training(data):
    prepared = Preparation.fit(data, TRAIN, elements="features", feature=True)
    rows = prepared.features(data).read(TRAIN)["elements"][:, 0]
    torch.testing.assert_close(rows.mean(0), torch.zeros(6), atol=1e-6, rtol=0)
    torch.testing.assert_close(rows.std(0, correction=0), torch.ones(6), atol=1e-5, rtol=0)
    raw = vectors_of(data.content, TRAIN).astype(np.float64)
    np.testing.assert_allclose(rows, (raw - raw.mean(0)) / raw.std(0), atol=1e-5)


def test_vectors_of_different_numbers_are_ragged(data):
    slide = data.content.slides[0]
    starts = np.concatenate([[0], 1 + np.arange(len(slide))])
    starts[1:] += 1  # the first spot has two
    rows = np.concatenate([[1], np.arange(len(slide))])
    uneven = replace(slide, vectors=Vectors(slide.vectors.store, rows, starts))
    content = replace(data.content, slides=(uneven, *data.content.slides[1:]))
    changed = replace(data, content=content)
    place = int(np.flatnonzero((content.slide_of == 0) & (content.spot_of == 0))[0])
    inputs = Preparation.fit(changed, TRAIN, elements="features").features(changed).read(np.array([place, place + 1]))
    assert inputs["elements"].lengths.tolist() == [2, 1]
    assert inputs["own"].tolist() == [2, 1]


def test_what_is_lacking_is_named(data):
    slides = data.content.slides
    bare = replace(data, content=replace(data.content, slides=(replace(slides[0], vectors=None), *slides[1:])))
    with pytest.raises(InputError, match="slide 'slide 0' has neither an image nor patch features"):
        Preparation.fit(bare, TRAIN)
    blind = replace(data, content=replace(data.content, slides=(*slides[:3], replace(slides[3], picture=None))))
    features = Preparation.fit(blind, TRAIN, window=8).features(blind)
    with pytest.raises(InputError, match="slide 'slide 3' has no image, and this model reads windows"):
        features.read(np.arange(70))
    narrow = replace(slides[1], vectors=Vectors(np.zeros((len(slides[1]), 3)), np.arange(3), np.arange(4)))
    mixed = replace(data, content=replace(data.content, slides=(slides[0], narrow, *slides[2:])))
    with pytest.raises(InputError, match="one width, got slide 0 6, slide 1 3"):
        Preparation.fit(mixed, TRAIN)
