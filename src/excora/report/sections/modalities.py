"""Which modality of clips the predictions hang on, and what attention brings from one to another."""

from __future__ import annotations

from excora.report.clips import Modalities
from excora.report.numerals import correlation, figure, plural, signed
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.tables import Cell, Column, Table


@section("modalities", "Modalities", place=470)
def modalities(record: RunRecord) -> Made:
    """Nothing to say where samples are no clips of two modalities or more."""
    found = None if record.results is None else record.results.modalities
    if found is None or not found.uses:
        return None
    tables = [table for table in (_uses(found), _clips(found), _brought(found)) if table is not None]
    most = max(found.uses, key=lambda one: one.moved or 0.0)
    lead = (
        f"Of {plural(found.clips, 'clip')} one modality at a time was taken from three other clips. Predictions move "
        f"most with {most.modality}, by {figure(most.moved, 2)} deviations of the labels in the mean. A modality that "
        "is not used moves nothing, wherever attention goes."
    )
    return Section(lead=lead, tables=tables)


def _uses(found: Modalities) -> Table:
    def lost(pcc: float | None) -> float | None:
        return None if pcc is None or found.pcc is None else found.pcc - pcc

    rows: list[list[Cell]] = [[one.modality, one.moved, one.pcc, lost(one.pcc)] for one in found.uses]
    columns = [
        Column("Modality"),
        Column("Predictions move by", figure),
        Column("PCC with that of others", correlation),
    ]
    title = f"How much each modality is used (PCC as it is: {correlation(found.pcc)})"
    return Table(title, [*columns, Column("PCC lost", signed)], rows)


def _clips(found: Modalities) -> Table | None:
    names = [one.modality for one in found.uses]
    rows: list[list[Cell]] = [[one.id, *(one.moved.get(name) for name in names)] for one in found.by_clip]
    columns = [Column("Clip"), *(Column(name, figure) for name in names)]
    return Table("Clips whose prediction moves most, by modality", columns, rows, sortable=True) if rows else None


def _brought(found: Modalities) -> Table | None:
    rows: list[list[Cell]] = []
    for one in found.brought:
        heads = [share for share in one.by_head if share is not None]
        ends = (min(heads), max(heads)) if heads else (None, None)
        rows.append([one.layer, one.receiver, one.giver, one.share, *ends])
    columns = [Column("Layer"), Column("To"), Column("From")]
    columns += [Column(head, figure) for head in ("Share", "Of the head with least", "With most")]
    title = "What share of what attention brings comes from each modality (our reading of the inter-modality flow)"
    return Table(title, columns, rows, sortable=True) if rows else None
