"""The mean cosine over training, in a plot and in words."""

from __future__ import annotations

import pytest

from excora.report.sections.collapse import collapse
from report.sections.records import monitored


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.2, 0.4, 0.3], "have not collapsed"),
        ([0.2, 0.9, 0.97], "collapsed in training"),
        ([0.96, 0.99], "alike from the start"),
    ],
)
def test_the_sentence_follows_the_figure(values, said):
    (plot,) = collapse(monitored(mean_cosine=values)).plots
    assert said in plot.sentence
    assert plot.views[""].traces[0]["y"] == values
    assert [row[1] for row in plot.table.rows] == values


def test_a_run_that_did_not_measure_it_has_no_such_section():
    for record in (monitored(mean_cosine=[None, None]), monitored(gradient_ratio=[1.0])):
        assert "not measured" in collapse(record).reason
