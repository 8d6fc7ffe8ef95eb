"""Attention in place."""

from __future__ import annotations

import math

from excora.report import RunRecord
from excora.report.sections.places import places


def bag(name, x=(0, 512), y=(0, 256), effective=(0.75, 0.25)):
    drawn = {"x": list(x), "y": list(y), "effective": list(effective)}
    return {"id": name, "elements": 2, "top": [], "prediction": 1.0, "target": None, "places": drawn}


def made(*bags, pools=1):
    pool = {"gamma": [], "temperature": [], "effective_elements": [], "elements": [], "bags": list(bags)}
    return places(RunRecord.of(attention={f"pool {k}": pool for k in range(pools)}))


def test_a_sample_is_a_view_and_an_element_a_point_where_it_lies():
    (plot,) = made(bag("s1"), bag("s2", effective=(1.5, -0.5))).plots
    assert list(plot.views) == ["s1", "s2"]
    (points,), layout = plot.views["s1"]
    assert (points["x"], points["y"]) == ([0, 512], [0, 256])
    assert points["text"] == ["75.0 %", "25.0 %"]
    assert points["marker"]["opacity"][0] == 1
    assert math.isclose(points["marker"]["opacity"][1], 0.08 + 0.92 / 3, abs_tol=1e-3)
    assert (layout["yaxis"]["autorange"], layout["yaxis"]["scaleanchor"]) == ("reversed", "x")
    toward, away = plot.views["s2"].traces
    assert (toward["x"], away["x"]) == ([0], [512])
    assert toward["marker"]["color"] != away["marker"]["color"]
    assert [row[0] for row in plot.table.rows] == ["s1", "s1", "s2", "s2"]


def test_there_is_nothing_to_say_where_elements_have_no_place():
    assert made({key: value for key, value in bag("s").items() if key != "places"}) is None
    assert made(bag("s", x=(), y=(), effective=())) is None
    assert made(bag("s", x=(1,))) is None, "what does not belong together is not drawn"


def test_names_that_are_alike_and_several_pools_are_told_apart():
    found = made(bag("<s>"), bag("<s>"), pools=2)
    assert [plot.name for plot in found.plots] == ["places", "places-2"]
    assert [list(plot.views) for plot in found.plots] == [["<s> (1)", "<s> (2)"]] * 2
