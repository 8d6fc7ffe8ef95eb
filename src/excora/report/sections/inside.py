"""A look inside the network: what its pooling weights are worth, how singular values fall, how layers move the data."""

from __future__ import annotations

from excora.report.epochs import line
from excora.report.insides import Inside
from excora.report.numerals import count, figure, plural
from excora.report.plots import Plot, View, plot_text, whole
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.tables import Cell, Column, Table

#: Lines that are told apart by colour.
COLORS = 8


@section("inside", "Inside the model", place=640)
def inside(record: RunRecord) -> Made:
    """Tables of the pools and of the layers; nothing unless somebody asked (`excora diagnose RUN --inside DATA`)."""
    found = record.inside
    if found is None:
        return None
    tables = [table for table in (_pools(found), _spectra(found), _layers(found)) if table is not None]
    reasons = [f"Pool {pool.pool}: {pool.reason}." for pool in found.pools if pool.reason]
    lead = f"A look inside on {plural(found.samples, 'sample')}. "
    if any(not pool.reason for pool in found.pools):
        lead += (
            "Gain is what the weights keep of the signal that places share over what they keep of noise (alpha/kappa); "
            "alignment is how well the covariance of the pooled values would then show that signal, as theory has it. "
        )
    if found.layers:
        lead += "Optimality is 1 where a layer moves its elements no farther than between these two clouds it must. "
    return Section(lead=lead + " ".join(reasons), plots=[_decay(found)] if found.spectra else [], tables=tables)


def _pools(found: Inside) -> Table | None:
    rows: list[list[Cell]] = [
        [p.pool, p.places, p.gain, p.even_gain, p.best_gain, p.strength, p.threshold, p.alignment]
        for p in found.pools
        if not p.reason
    ]
    heads = ("Gain", "Of even weights", "Of the best", "Signal s", "Shows above", "Alignment")
    columns = [Column("Pool"), Column("Places", count), *(Column(head, figure) for head in heads)]
    return Table("What the pooling weights are worth", columns, rows) if rows else None


def _spectra(found: Inside) -> Table | None:
    rows: list[list[Cell]] = [
        [one.of, one.kind, one.directions, one.most, one.mean_cosine, one.reading] for one in found.spectra
    ]
    columns = [Column("Of"), Column("Kind"), Column("Directions", figure), Column("At most", figure)]
    columns += [Column("Mean cosine", figure), Column("Reading")]
    return Table("How many directions carry 90 % of the energy", columns, rows) if rows else None


def _decay(found: Inside) -> Plot:
    """The share of the energy by direction, largest first."""
    drawn = found.spectra[:COLORS]
    longest = max(len(one.shares) for one in drawn)
    traces = [
        line(plot_text(f"{one.of}, {one.kind}"), dict(enumerate(one.shares, 1)), f"@c{k + 1}")
        for k, one in enumerate(drawn)
    ]
    layout = {
        "xaxis": {"title": {"text": "Direction"}, "tickformat": "d", **whole(longest)},
        "yaxis": {"title": {"text": "Share of the energy"}, "rangemode": "tozero"}, "hovermode": "x unified",
    }  # fmt: skip
    rows: list[list[Cell]] = [
        [k + 1, *(one.shares[k] if k < len(one.shares) else None for one in drawn)] for k in range(longest)
    ]
    columns = [Column("Direction", count), *(Column(f"{one.of}, {one.kind}", figure) for one in drawn)]
    note = "Energy: the squared singular values of the unit elements of a sample, or of an attention matrix; means."
    sentence = "How singular values fall. " + " ".join(f"{one.of}, {one.kind}: {one.reading}." for one in drawn)
    table = Table("Share of the energy by direction", columns, rows)
    return Plot("decay", "Singular-value decay", sentence, {"": View(traces, layout)}, table, note)


def _layers(found: Inside) -> Table | None:
    rows: list[list[Cell]] = [
        [layer.layer, layer.kind, layer.points, layer.optimality, layer.matching, layer.monge_gap]
        for layer in found.layers
    ]
    columns = [Column("Layer"), Column("Kind"), Column("Elements", count)]
    columns += [Column(head, figure) for head in ("Optimality", "Matching", "Monge gap")]
    return Table("How the layers move the data", columns, rows, sortable=True) if rows else None
