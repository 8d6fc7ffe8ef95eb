"""What reading, training and comparing noticed."""

from __future__ import annotations

from excora.report.records import ComparisonRecord, Record
from excora.report.sections import BOTH, Made, Missing, Section, section


@section("notes", "Notes", place=800, reads=BOTH)
def notes(record: Record) -> Made:
    """A line each."""
    parts = (record,) if isinstance(record, ComparisonRecord) else (record.results, record.comparison)
    found = [note for part in parts if part is not None for note in part.notes]
    if not found:
        return Missing("nothing out of the ordinary was noted.")
    return Section(template="notes.html", values={"notes": list(dict.fromkeys(found))})
