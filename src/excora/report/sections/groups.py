"""The scores of each group."""

from __future__ import annotations

from excora.report.numerals import correlation, count, figure, plural
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Column, Table


@section("groups", "Scores by group", place=500)
def groups(record: RunRecord) -> Made:
    """A row for each group of the test part."""
    found = [] if record.results is None else record.results.groups.get("test", [])
    if not found:
        return Missing("no column was named as the group (`--group`), or the run has not ended.")
    columns = [Column("Group"), Column("Test samples", count), Column("PCC", correlation), Column("MSE", figure)]
    rows = [[str(g.group), g.n, g.pcc, g.mse] for g in found]
    known = [g.pcc for g in found if g.pcc is not None]
    lead = f"{plural(len(found), 'group')} in the test part."
    if len(known) > 1:
        lead += f" Their correlations run from {correlation(min(known))} to {correlation(max(known))}."
    if len(known) < len(found):
        lead += f" In {len(found) - len(known):,} the correlation is undefined, a dash: too few or constant values."
    return Section(lead=lead, tables=[Table("Test scores by group", columns, rows, sortable=True)])
