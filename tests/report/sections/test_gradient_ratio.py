"""The gradient ratio under its bound, on a log axis."""

from __future__ import annotations

import pytest

from excora.report.sections import Missing
from excora.report.sections.gradient_ratio import _ticks, gradient_ratio
from report.sections.records import monitored


def test_what_a_log_axis_cannot_show_is_left_out():
    (plot,) = gradient_ratio(
        monitored(gradient_ratio=[0.0, 0.5, None, 0.125], gradient_ratio_bound=[4.0, 2.0, 1.0, 0.5])
    ).plots
    ratio, bound = plot.views[""].traces
    assert (ratio["x"], ratio["y"]) == ([2, 4], [0.5, 0.125])
    assert (bound["x"], bound["y"]) == ([1, 2, 3, 4], [4.0, 2.0, 1.0, 0.5])
    assert "0.500 in the first epoch, 0.125 in the last" in plot.sentence
    assert plot.table.rows[0] == [1, None, 4.0]
    axis = plot.views[""].layout["yaxis"]
    assert (axis["type"], axis["tickvals"][0], axis["ticktext"][:3]) == ("log", 0.1, ["0.1", "0.2", "0.5"])


def test_without_a_bound_the_ratio_stands_alone_and_without_a_ratio_nothing_does():
    (plot,) = gradient_ratio(monitored(gradient_ratio=[1.0, 2.0])).plots
    assert [trace["name"] for trace in plot.views[""].traces] == ["Ratio"]
    assert isinstance(gradient_ratio(monitored(gradient_ratio=[0.0, None])), Missing)


@pytest.mark.parametrize("low", [1e-12, 1e-3, 0.3])
def test_the_ticks_hold_the_values_and_are_few(low):
    ticks = _ticks([low, 3.0])
    assert ticks == sorted(ticks)
    assert ticks[0] <= low
    assert 2 <= len(ticks) <= 12
