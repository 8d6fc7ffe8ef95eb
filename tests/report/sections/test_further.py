"""Scores of a field, by part and target."""

from __future__ import annotations

from excora.report import RunRecord
from excora.report.sections.further import further
from report.sections.records import results, score


def test_a_row_for_each_part_and_target():
    scores = {"Acc-2": 0.5, "F1": None}
    record = results(validation={"y": score(0.8, 1.5)}, further={"validation": {"y": scores}, "test": {"y": scores}})
    (table,) = further(record).tables
    assert [[words for words, _ in row] for row in table.ready()] == [
        ["y", "validation", "0.5000", "–"],
        ["y", "test", "0.5000", "–"],
    ]


def test_without_any_there_is_no_section():
    assert further(RunRecord()) is None
    assert further(results(validation={"y": score(0.8, 1.5)})) is None
