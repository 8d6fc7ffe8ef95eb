"""The three parts of the MSE: what each takes of the last epoch's."""

from __future__ import annotations

from excora.report.sections import Missing
from excora.report.sections.error_parts import error_parts
from report.sections.records import monitored

PARTS = {"mse_correlation": [1.0, 0.5], "mse_scale": [0.5, 0.3], "mse_offset": [0.5, 0.2]}


def test_the_sentence_says_the_shares_of_the_last_epoch():
    (plot,) = error_parts(monitored(**PARTS)).plots
    assert plot.sentence.endswith("In the last epoch: wrong order 50 %, wrong spread 30 %, wrong level 20 %.")
    assert [trace["y"] for trace in plot.views[""].traces] == list(PARTS.values())
    assert {trace["stackgroup"] for trace in plot.views[""].traces} == {"mse"}
    assert plot.table.rows == [[1, 1.0, 0.5, 0.5], [2, 0.5, 0.3, 0.2]]


def test_of_no_error_nothing_has_a_share():
    (plot,) = error_parts(monitored(**{name: [1.0, 0.0] for name in PARTS})).plots
    assert plot.sentence.endswith("In the last epoch: none left.")


def test_without_one_of_the_parts_there_is_no_section():
    assert isinstance(error_parts(monitored(**PARTS | {"mse_scale": [None, None]})), Missing)
