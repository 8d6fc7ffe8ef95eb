"""The notes of the run and of the comparison beside it, each once."""

from __future__ import annotations

from excora.report import RunRecord
from excora.report.sections import Missing
from excora.report.sections.notes import notes
from report.sections.records import compared, results


def test_the_notes_of_both_in_order_each_once():
    alone = results(notes=["3 rows are empty", "of all three", "3 rows are empty"])
    both = RunRecord(results=alone.results, comparison=compared(notes=["of all three", "few groups"]))
    assert notes(alone).values["notes"] == ["3 rows are empty", "of all three"]
    assert notes(both).values["notes"] == ["3 rows are empty", "of all three", "few groups"]
    assert notes(both.comparison).values["notes"] == ["of all three", "few groups"]


def test_nothing_noted_is_said():
    assert isinstance(notes(results()), Missing)
    assert isinstance(notes(RunRecord()), Missing)
