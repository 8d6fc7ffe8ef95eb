"""Spots as samples, and what a linear model reads of a batch."""

from __future__ import annotations

import numpy as np
import samples_data
import torch

from excora.data.preparation import Preparation
from excora.data.spatial import SpatialSpec
from excora.ragged import Ragged


def test_keys_are_of_slides_or_blocks():
    content = samples_data.spatial().content
    assert len(set(content.keys.tolist())) == 4
    for number in range(4):
        assert len(set(content.keys[content.slide_of == number])) == 1
    alone = content.take(np.flatnonzero(content.slide_of == 2))
    assert set(alone.keys) < set(content.keys)
    words = np.array(["x", "y"] * 40, object)[: len(alone)]
    cut = type(alone)(alone.slides, alone.slide_of, alone.spot_of, words)
    assert len(set(cut.keys.tolist())) == 2


def test_summaries_are_means_of_own_and_neighbours():
    elements = torch.arange(12.0).reshape(6, 2)
    inputs = {"elements": Ragged(elements, torch.tensor([4, 2])), "own": torch.tensor([3, 1])}
    spec = SpatialSpec(targets=1, width=2, neighbours=1)
    wanted = torch.stack([torch.cat([elements[:3].mean(0), elements[3]]), torch.cat([elements[4], elements[5]])])
    torch.testing.assert_close(spec.summarise(inputs), wanted)
    assert spec.summary == 4
    own = SpatialSpec(targets=1, width=2)
    box = {"elements": elements.view(2, 3, 2), "own": torch.tensor([3, 3])}
    torch.testing.assert_close(own.summarise(box), elements.view(2, 3, 2).mean(1))


def test_summaries_of_what_else_is_read():
    data = samples_data.spatial()
    for asked in ({"elements": "none", "feature": True}, {"elements": "none", "window": 8}, {"neighbours": 2}):
        prepared = Preparation.fit(data, np.arange(40), **asked)
        inputs = prepared.features(data).read(np.arange(5))
        found = prepared.spec.summarise(inputs)
        assert found.shape == (5, prepared.spec.summary)
        if asked.get("feature"):
            torch.testing.assert_close(found, inputs["feature"])
        if asked.get("window"):
            pixels = inputs["window"].flatten(2)
            torch.testing.assert_close(found, torch.cat([pixels.mean(2), pixels.std(2, correction=0)], 1))
