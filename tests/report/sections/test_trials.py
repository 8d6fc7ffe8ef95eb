"""What `excora tune` has tried."""

from __future__ import annotations

from excora.report.records import RunRecord
from excora.report.sections.trials import trials

RESULTS = {"best_epoch": None, "epochs": 0, "counts": {}, "validation": {}, "test": {}}


def test_a_row_a_trial_with_what_sets_it_apart() -> None:
    tried = [
        {"options": {"epochs": 3, "bins": bins}, "mse": 0.5, "pcc": 0.7, "seconds": 2.0} for bins in (8, 16)
    ]  # fmt: skip
    made = trials(RunRecord.of(results=RESULTS | {"trials": tried, "chosen": [1, 1, 0]}))
    rows = made.tables[0].rows
    assert [row[3] for row in rows] == [1.0, 2.0]
    assert [row[4] for row in rows] == ["bins 8", "bins 16"]
    assert "2 settings" in made.lead
    assert "3 members" in made.lead


def test_a_run_that_tried_nothing_has_none() -> None:
    assert trials(RunRecord.of(results=RESULTS)) is None
    assert trials(RunRecord()) is None
