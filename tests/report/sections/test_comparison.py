"""The comparison: the table of the models, and their paired differences."""

from __future__ import annotations

from excora.report import RunRecord
from excora.report.sections import Missing
from excora.report.sections.comparison import comparison
from report.sections.records import compared, model, score


def cells(table):
    return [[words for words, _ in row] for row in table.ready()]


def test_a_row_has_its_scores_the_range_of_its_folds_and_its_difference_from_the_reference():
    made = comparison(compared(setup={"margin": 0.02}))
    assert cells(made.tables[0]) == [
        ["B", "0.750", "0.625 to 0.875", "+0.250", "0.125 to 0.375", "better", "3.000", "0.5000", "30.0"],
        ["A", "0.500", "0.375 to 0.625", "–", "–", "reference", "2.000", "0.5000", "30.0"],
        ["C", "–", "–", "−0.500", "−0.750 to −0.250", "worse", "4.000", "0.5000", "30.0"],
    ]  # fmt: skip
    assert "2 runs" in made.values["note"]
    assert "minus that of A" in made.values["note"]
    assert "between −0.02 and 0.02" in made.values["note"]


def test_every_fold_is_a_point_and_all_samples_a_diamond_the_best_on_top():
    folds, _ = comparison(compared()).plots
    (view,) = folds.views.values()
    assert view.layout["yaxis"]["ticktext"] == ["C", "A", "B"]  # from below
    dots, whole = view.traces
    assert (dots["x"], dots["y"]) == ([0.375, 0.625, 0.625, 0.875], [1, 1, 2, 2])
    assert (whole["x"], whole["y"]) == ([0.5, 0.75], [1, 2])
    assert [row[:2] for row in cells(folds.table)][:2] == [["B", "seed 0, fold 1"], ["B", "seed 0, fold 2"]]
    rows = [row | {"runs": [{"seed": 0, "fold": 0, "seconds": 1.0}]} for row in map(dict, [model("a", 0.5, 1.0)])]
    assert comparison(compared(rows=rows, pairs=[])).plots == []  # a file of an early version


def test_there_is_a_view_for_each_model_that_others_are_compared_with_the_best_on_top():
    _, plot = comparison(compared()).plots
    assert list(plot.views) == ["B", "A", "C"]
    assert plot.views["A"].layout["yaxis"]["ticktext"] == ["C", "B"]  # from below
    better, worse = plot.views["A"].traces
    assert (better["x"], better["y"], worse["x"], worse["y"]) == ([0.25], [1], [-0.5], [0])
    assert (better["error_x"]["array"], better["error_x"]["arrayminus"]) == ([0.125], [0.125])
    assert [trace["name"] for trace in plot.views["B"].traces] == ["Cannot tell", "Worse"]
    assert [row[:2] for row in cells(plot.table)] == [
        ["C", "B"], ["A", "B"], ["B", "A"], ["C", "A"], ["A", "C"], ["B", "C"],
    ]  # fmt: skip


def test_a_file_of_the_first_version_shows_the_score_that_its_differences_are_of():
    rows = [model("a", 0.5, 1.0) | {"pooled_pcc": 0.25, "pooled_mse": 3.0}]
    assert cells(comparison(compared(rows=rows, pairs=[])).tables[0])[0][1] == "0.250"


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
    assert [plot.name for plot in comparison(compared(pairs=[])).plots] == ["by-fold"]
    assert isinstance(comparison(compared(rows=[], pairs=[])), Missing)
    assert isinstance(comparison(RunRecord()), Missing)
