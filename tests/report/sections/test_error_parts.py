"""The three parts of the MSE: what each takes of the kept epoch's."""

from __future__ import annotations

from excora.report.sections import Missing
from excora.report.sections.error_parts import error_parts
from report.sections.records import monitored

PARTS = {"mse": [2.0, 1.0], "mse_affine": [1.0, 0.5], "mse_offset": [0.5, 0.25]}


def test_the_sentence_says_the_shares_and_of_which_epoch():
    (plot,) = error_parts(monitored(**PARTS)).plots
    assert plot.sentence.endswith("In the last epoch: wrong order 50 %, wrong spread 25 %, wrong level 25 %.")
    assert [trace["y"] for trace in plot.views[""].traces] == [[1.0, 0.5], [0.5, 0.25], [0.5, 0.25]]
    assert {trace["stackgroup"] for trace in plot.views[""].traces} == {"mse"}
    assert plot.table.rows == [[1, 1.0, 0.5, 0.5], [2, 0.5, 0.25, 0.25]]


def test_a_prediction_that_shrinks_as_it_should_has_no_wrong_spread():
    sd, rho = 0.02, 0.02  # of noise: sigma_yhat = rho sigma_y
    noise = {"mse": [(sd - rho) ** 2 + 1 - rho**2], "mse_affine": [1 - rho**2], "mse_offset": [0.0]}
    (plot,) = error_parts(monitored(**noise)).plots
    assert "wrong order 100 %, wrong spread 0 %" in plot.sentence


def test_of_no_error_nothing_has_a_share():
    (plot,) = error_parts(monitored(**{name: [1.0, 0.0] for name in PARTS})).plots
    assert plot.sentence.endswith("In the last epoch: none left.")


def test_without_one_of_the_parts_there_is_no_section():
    assert isinstance(error_parts(monitored(**PARTS | {"mse_affine": [None, None]})), Missing)
