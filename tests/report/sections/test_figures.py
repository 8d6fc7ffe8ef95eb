"""The key figures: of a run its scores, of a comparison its best models."""

from __future__ import annotations

import pytest

from excora.report import RunRecord
from excora.report.sections import Missing
from excora.report.sections.figures import figures
from report.sections.records import compared, model, results, score


def cards(record):
    return {card.name: (card.value, card.more) for card in figures(record).values["cards"]}


def test_one_target_has_its_interval():
    found = cards(results(test={"y": score(0.75, 2.0, low=0.5, high=0.875)}, seconds=75.0))
    assert found == {
        "Test PCC": ("0.750", "95 % interval 0.500 to 0.875"),
        "Test MSE": ("2.000", "mean squared error"),
        "Test MAE": ("0.5000", "mean absolute error"),
        "Samples": ("60", "in the test part; 3,000 to train, 50 to validate"),
        "Training": ("1 min 15 s", "10 epochs"),
    }


def test_several_targets_are_averaged_over_those_that_are_defined():
    found = cards(results(test={"a": score(0.25, 1.0), "b": score(None, 2.0), "c": score(0.75, 6.0)}))
    assert found["Test PCC"] == ("0.500", "mean over 3 targets; 0.250 to 0.750")
    assert found["Test MSE"] == ("3.000", "mean over 3 targets")
    assert "Training" not in found


def test_without_a_test_part_validation_counts():
    found = cards(results(validation={"y": score(0.5)}))
    assert found["Validation PCC"] == ("0.500", "")
    assert found["Samples"][0] == "50"


def test_a_correlation_that_is_undefined_says_why():
    assert cards(results(test={"y": score(None)}))["Test PCC"] == ("–", "undefined: constant values")


def test_the_best_models_of_a_comparison():
    rows = [model("a", 0.5, 2.0, 30), model("b", 0.75, 3.0, 60), model("c", None, 4.0, 1)]
    assert cards(compared(rows=rows)) == {
        "Highest PCC": ("0.750", "B, all samples"),
        "Lowest MSE": ("2.000", "A, all samples"),
        "Models": ("3", "2 runs each"),
        "Training": ("3 min 2 s", "all runs together"),
    }


@pytest.mark.parametrize("record", [RunRecord(), results(), compared(rows=[], pairs=[])])
def test_without_scores_there_are_no_figures(record):
    assert isinstance(figures(record), Missing)
