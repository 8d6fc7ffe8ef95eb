"""The scores of each target."""

from __future__ import annotations

from excora.report.numerals import correlation, figure
from excora.report.parts import Score
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Cell, Column, Table, between

NONE = Score(pcc=None, mse=None, mae=None)
TESTED = (
    Column("Test PCC", correlation), Column("95 % interval", correlation), Column("Test MSE", figure),
    Column("Test MAE", figure),
)  # fmt: skip


@section("targets", "Scores by target", place=450)
def targets(record: RunRecord) -> Made:
    """A row for each target."""
    if record.results is None:
        return Missing("the run has not ended yet.")
    tested = bool(record.results.test)
    rows: list[list[Cell]] = []
    for name in record.results.scores:
        test, validation = record.results.test.get(name, NONE), record.results.validation.get(name, NONE)
        scores = [test.pcc, between(test.low, test.high), test.mse, test.mae] if tested else []
        rows.append([name, *scores, validation.pcc, validation.mse])
    if not rows:
        return Missing("there are no scores.")
    columns = [
        Column("Target"), *(TESTED if tested else ()), Column("Validation PCC", correlation),
        Column("Validation MSE", figure),
    ]  # fmt: skip
    caption = "Test and validation scores" if tested else "Validation scores"
    return Section(tables=[Table(caption, columns, rows, sortable=True)])
