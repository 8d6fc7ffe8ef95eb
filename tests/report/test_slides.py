"""Slides in a record."""

from __future__ import annotations

import pytest

from excora.report.slides import Picture, Slide


@pytest.mark.parametrize(
    "address",
    ["https://example.org/a.jpg", "data:text/html;base64,AAAA", 'data:image/png;base64,AA"onload=', "", "javascript:1"],
)
def test_nothing_but_a_picture_in_the_page_is_drawn(address):
    assert Picture(picture=address, x=0, y=0, width=1, height=1).image() == []


def test_a_picture_covers_its_rectangle_under_the_axes():
    slide = Slide(name="a", pitch=1.0, picture="data:image/png;base64,AA==", width=30.0, height=20.0)
    (image,) = slide.under.image("2")
    assert (image["xref"], image["yref"], image["layer"]) == ("x2", "y2", "below")
    assert (image["x"], image["y"], image["sizex"], image["sizey"]) == (0.0, 0.0, 30.0, 20.0)
