"""The tissue under the spots of a run."""

from __future__ import annotations

import base64
import io

import numpy as np
import samples_data
from PIL import Image

from excora.application.tissue import backdrop, jpeg, tissue


def opened(address: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))


def test_slides_and_places_of_the_samples_that_are_asked_for():
    dataset = samples_data.spatial()
    index = np.array([3, 9, 20, 41])
    found = tissue(dataset, index)
    assert found["ids"] == dataset.ids[index].tolist()
    names = [found["slides"][k]["name"] for k in found["slide"]]
    assert names == dataset.content.slide_names[index].tolist()
    np.testing.assert_allclose(np.stack([found["x"], found["y"]], 1), dataset.content.coords[index])
    first = found["slides"][0]
    assert opened(first["picture"]).size == (72, 72)
    assert (first["width"], first["height"]) == (72.0, 72.0)


def test_other_samples_have_none():
    assert tissue(samples_data.table(), np.arange(3)) is None
    assert tissue(samples_data.spatial(), np.arange(0)) is None
    assert backdrop(samples_data.bags(), 0, np.zeros((1, 2))) is None


def test_what_lies_under_the_elements_of_a_spot():
    dataset = samples_data.spatial()
    centre = dataset.content.coords[5]
    found = backdrop(dataset, 5, centre + np.array([[0.0, 0.0], [10.0, -4.0]]))
    pitch = dataset.content.slides[dataset.content.slide_of[5]].pitch
    reach = 10.0 + pitch / 2
    assert found["x"] == max(np.floor(centre[0] - reach), 0)
    assert opened(found["picture"]).size == (found["width"], found["height"])
    assert found["x"] <= centre[0] <= found["x"] + found["width"]


def test_a_picture_is_an_address():
    assert opened(jpeg(np.zeros((4, 6, 3), np.uint8))).size == (6, 4)
