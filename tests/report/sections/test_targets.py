"""The scores of each target, test beside validation."""

from __future__ import annotations

from excora.report import RunRecord
from excora.report.sections import Missing
from excora.report.sections.targets import targets
from report.sections.records import results, score


def rows(record):
    (table,) = targets(record).tables
    assert table.sortable
    return [[words for words, _ in row] for row in table.ready()]


def test_a_row_has_both_parts():
    record = results(
        test={"a": score(0.75, 2.0, 1.0, low=0.5, high=0.875), "b": score(None, 8.0)}, validation={"a": score(0.8, 1.5)}
    )
    assert rows(record) == [
        ["a", "0.750", "0.500 to 0.875", "2.000", "1.000", "0.800", "1.500"],
        ["b", "–", "–", "8.000", "0.5000", "–", "–"],
    ]


def test_without_a_test_part_validation_stands_alone():
    assert rows(results(validation={"a": score(0.8, 1.5)})) == [["a", "0.800", "1.500"]]


def test_without_scores_there_is_no_table():
    assert isinstance(targets(results()), Missing)
    assert isinstance(targets(RunRecord()), Missing)
