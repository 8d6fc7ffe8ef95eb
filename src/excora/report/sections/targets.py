"""The scores of each target."""

from __future__ import annotations

from excora.report.numerals import correlation, figure
from excora.report.parts import Score
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Cell, Column, Table, between

NONE = Score(pcc=None, mse=None, mae=None)


@section("targets", "Scores by target", place=450)
def targets(record: RunRecord) -> Made:
    """A row for each target."""
    if record.results is None:
        return Missing("there is no results.json.")
    rows: list[list[Cell]] = []
    for name in record.results.scores:
        test, validation = record.results.test.get(name, NONE), record.results.validation.get(name, NONE)
        scores = [test.pcc, between(test.low, test.high), test.mse, test.mae]
        rows.append([name, *scores, validation.pcc, validation.mse])
    if not rows:
        return Missing("results.json has no scores.")
    columns = [
        Column("Target"), Column("Test PCC", correlation), Column("95 % interval", correlation),
        Column("Test MSE", figure), Column("Test MAE", figure), Column("Validation PCC", correlation),
        Column("Validation MSE", figure),
    ]  # fmt: skip
    return Section(tables=[Table("Test and validation scores", columns, rows, sortable=True)])
