"""The comparison: the table of the models, and their paired differences."""

from __future__ import annotations

from excora.report import RunRecord
from excora.report.sections import Missing
from excora.report.sections.comparison import comparison
from report.sections.records import compared, score


def cells(table):
    return [[words for words, _ in row] for row in table.ready()]


def test_a_row_has_mean_and_spread_and_its_difference_from_the_reference():
    made = comparison(compared())
    assert cells(made.tables[0]) == [
        ["A", "0.500 ± 0.010", "2.000 ± 0.25", "0.5000", "–", "–", "reference", "30.0"],
        ["B", "0.750 ± 0.010", "3.000 ± 0.25", "0.5000", "+0.250", "0.125 to 0.375", "better", "30.0"],
        ["C", "–", "4.000 ± 0.25", "0.5000", "−0.500", "−0.750 to −0.250", "worse", "30.0"],
    ]
    assert "2 runs of each model" in made.values["note"]
    assert "minus that of A" in made.values["note"]


def test_there_is_a_view_for_each_model_that_others_are_compared_with_the_best_on_top():
    (plot,) = comparison(compared()).plots
    assert list(plot.views) == ["A", "B"]
    assert plot.views["A"].layout["yaxis"]["ticktext"] == ["C", "B"]  # from below
    better, worse = plot.views["A"].traces
    assert (better["x"], better["y"], worse["x"], worse["y"]) == ([0.25], [1], [-0.5], [0])
    assert (better["error_x"]["array"], better["error_x"]["arrayminus"]) == ([0.125], [0.125])
    assert [trace["name"] for trace in plot.views["B"].traces] == ["No difference"]
    assert [row[:2] for row in cells(plot.table)] == [["B", "A"], ["C", "A"], ["C", "B"]]


def test_the_sentence_stands_here_only_where_the_run_has_a_verdict_of_its_own():
    found = {"name": "healthy", "sentence": "Fine.", "advice": "", "evidence": {}}
    worth = {"best_epoch": 0, "epochs": 1, "counts": {}, "validation": {}, "test": {"y": score(0.5)}}
    leads = [
        comparison(RunRecord.of(results=results, comparison=compared())).lead
        for results in (None, worth, worth | {"verdict": found})
    ]
    assert leads == ["", "", "B is better."]
    assert comparison(compared()).lead == ""


def test_without_pairs_there_is_no_plot_and_without_models_no_section():
    assert comparison(compared(pairs=[])).plots == []
    assert isinstance(comparison(compared(rows=[], pairs=[])), Missing)
    assert isinstance(comparison(RunRecord()), Missing)
