"""What is given to plotly."""

from __future__ import annotations

import re

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
