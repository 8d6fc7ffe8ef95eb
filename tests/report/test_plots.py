"""What is given to plotly."""

from __future__ import annotations

import re

from excora.report.plots import Plot, View, plot_text, short, whole
from excora.report.tables import Table
from report.samples import Page


def test_plotly_is_given_no_tags_of_others(hostile):
    ours = re.compile(r"<br>|<extra></extra>")

    def strings(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key != "name":  # set as text of a button, never given to plotly: showlegend is off
                    yield from strings(item)
        elif isinstance(value, list):
            for item in value:
                yield from strings(item)
        elif isinstance(value, str):
            yield value

    found = list(strings(Page(hostile).plots))
    assert any("&lt;script&gt;" in text for text in found)
    assert [text for text in found if "<" in ours.sub("", text)] == []


def test_a_plot_is_drawn_from_its_views_in_order():
    views = {"a": View([{"x": [1]}], {"xaxis": {}}), "b": View([], {})}
    plot = Plot("scatter", "Title", "Sentence.", views, Table("x", [], []))
    assert plot.data() == {
        "name": "scatter",
        "views": [{"traces": [{"x": [1]}], "layout": {"xaxis": {}}}, {"traces": [], "layout": {}}],
    }


def test_labels_are_cut_before_they_are_escaped():
    assert plot_text("<" * 5, 3) == "&lt;&lt;…"
    assert plot_text("abc", 3) == "abc"


def test_numbers_on_a_screen():
    assert [short(x) for x in (1 / 3, 1234567.0, -2e-9)] == [0.333333, 1234570.0, -2e-9]
    assert [whole(span) for span in (0, 7, 8)] == [{"dtick": 1}, {"dtick": 1}, {}]
