"""The comparison: a table of the models, and their paired differences with intervals."""

from __future__ import annotations

from typing import Any

from excora.report.numerals import correlation, figure, plural, signed
from excora.report.parts import ModelRow, Pair
from excora.report.plots import Plot, View, plot_text, short
from excora.report.records import ComparisonRecord, Record
from excora.report.sections import BOTH, Made, Missing, Section, section
from excora.report.tables import Cell, Column, Shown, Table, between

#: verdict: (colour, symbol)
LOOKS = {"better": ("@c1", "triangle-right"), "no difference": ("@muted", "circle"), "worse": ("@c2", "triangle-left")}


@section("comparison", "Comparison of models", place=200, reads=BOTH)
def comparison(record: Record) -> Made:
    """The models side by side, and what of it is more than noise."""
    found = record if isinstance(record, ComparisonRecord) else record.comparison
    if found is None or not found.rows:
        return Missing("nothing was compared with yet; `excora compare` with the same `--output` does it.")
    labels = {row.model: row.label for row in found.rows}
    reference = labels.get(found.reference, found.reference)
    runs = plural(max(len(row.runs) for row in found.rows), "run")
    note = (
        f"Mean ± standard deviation over {runs} of each model (folds × seeds), on the same folds and features. "
        f"Difference: PCC over all test samples together minus that of {reference}, with its 95 % interval; if the "
        "interval holds 0, the difference may be noise."
    )
    # Without a verdict on the run, the sentence is on top of the page.
    judged = not isinstance(record, ComparisonRecord) and record.results is not None and record.results.verdict
    return Section(
        template="comparison.html", lead=found.sentence if judged else "", tables=[_models(found)],
        plots=[_differences(found.pairs, labels)] if found.pairs else [], values={"note": note},
    )  # fmt: skip


def _models(found: ComparisonRecord) -> Table:
    pairs = {pair.model: pair for pair in found.pairs if pair.against == found.reference}
    rows: list[list[Cell]] = []
    for row in found.rows:
        scores = [_spread(row, "pcc"), _spread(row, "mse"), _spread(row, "mae")]
        pair = pairs.get(row.model)
        rest: list[Cell] = [None, None, "reference" if row.model == found.reference else ""]
        if pair is not None:
            rest = [pair.difference, between(pair.low, pair.high), pair.verdict]
        rows.append([row.label, *scores, *rest, row.seconds])
    columns = [
        Column("Model"), Column("PCC", correlation), Column("MSE", figure), Column("MAE", figure),
        Column("Difference", signed), Column("95 % interval", correlation), Column("Verdict"),
        Column("Seconds", lambda value: figure(value, 3)),
    ]  # fmt: skip
    return Table("Models on the same data", columns, rows, sortable=True)


def _spread(row: ModelRow, name: str) -> Shown:
    """Mean ± standard deviation as a cell, sorted by the mean."""
    mean, deviation = getattr(row, name), getattr(row, f"{name}_sd")
    words = correlation(mean) if name == "pcc" else figure(mean)
    if mean is None or deviation is None:
        return Shown(mean, words)
    return Shown(mean, f"{words} ± {correlation(deviation) if name == 'pcc' else figure(deviation, 2)}")


def _differences(pairs: list[Pair], labels: dict[str, str]) -> Plot:
    """A dot and its interval for each pair, the best on top; a view for each model that others are compared with."""
    views: dict[str, View] = {}
    rows: list[list[Cell]] = []
    for against in dict.fromkeys(pair.against for pair in pairs):
        mine = sorted((pair for pair in pairs if pair.against == against), key=lambda pair: pair.difference)
        names = [labels.get(pair.model, pair.model) for pair in mine]
        other = labels.get(against, against)
        traces = [_trace(verdict, mine, names) for verdict in LOOKS if any(p.verdict == verdict for p in mine)]
        views[other] = View(traces, _layout(names, other))
        for name, pair in zip(reversed(names), reversed(mine), strict=True):
            rows.append([name, other, pair.difference, between(pair.low, pair.high), pair.verdict])
    sentence = (
        "How much higher or lower the PCC of each model is, with 95 % intervals. One that crosses 0 is no proof of a "
        "difference."
    )
    columns = [Column("Model"), Column("Compared with"), Column("Difference", signed),
               Column("95 % interval", correlation), Column("Verdict")]  # fmt: skip
    data = Table("Paired differences in PCC", columns, rows)
    return Plot("differences", "Differences with their intervals", sentence, views, data, menu="Compared with")


def _layout(names: list[str], other: str) -> dict[str, Any]:
    ticks = {"tickvals": list(range(len(names))), "ticktext": [plot_text(name, 22) for name in names]}
    title = {"text": f"PCC minus<br>{plot_text(other, 20)}"}
    return {
        "xaxis": {"title": title, "zeroline": True, "tickformat": ".3~f", "tickangle": 0},
        "yaxis": ticks | {"range": [-0.6, len(names) - 0.4], "showgrid": False}, "hovermode": "closest",
    }  # fmt: skip


def _trace(verdict: str, pairs: list[Pair], names: list[str]) -> dict[str, Any]:
    """The pairs of one verdict, each at its place from below."""
    color, symbol = LOOKS[verdict]
    mine = [(place, pair) for place, pair in enumerate(pairs) if pair.verdict == verdict]
    words = [
        f"{plot_text(names[place])}<br>{signed(pair.difference)} ({between(pair.low, pair.high).words})"
        for place, pair in mine
    ]
    bars = {"type": "data", "symmetric": False, "color": color, "thickness": 2, "width": 5,
            "array": [short(pair.high - pair.difference) for _, pair in mine],
            "arrayminus": [short(pair.difference - pair.low) for _, pair in mine]}  # fmt: skip
    return {
        "type": "scatter", "mode": "markers", "name": verdict.capitalize(), "error_x": bars, "text": words,
        "x": [short(pair.difference) for _, pair in mine], "y": [place for place, _ in mine],
        "marker": {"color": color, "size": 11, "symbol": symbol}, "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip
