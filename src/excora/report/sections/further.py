"""What a field is judged by beside PCC, MSE and MAE."""

from __future__ import annotations

from excora.report.numerals import figure
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.tables import Cell, Column, Table


@section("further", "Scores of the field", place=460)
def further(record: RunRecord) -> Made:
    """A row for each part and target; one epoch, chosen on validation, for all of them."""
    parts = {} if record.results is None else record.results.further
    rows: list[list[Cell]] = []
    names: list[str] = []
    for part, targets in parts.items():
        for target, scores in targets.items():
            names = list(scores)
            rows.append([target, part, *scores.values()])
    if not rows:
        return None
    columns = [Column("Target"), Column("Part"), *(Column(name, figure) for name in names)]
    lead = "As this field computes them, all of one epoch, which the validation part has chosen."
    return Section(lead=lead, tables=[Table("Scores of the field", columns, rows)])
