"""The comparison: a table of the models, and their paired differences with intervals."""

from __future__ import annotations

from typing import Any

from excora.report.numerals import correlation, figure, plural, signed
from excora.report.parts import ModelRow, Pair
from excora.report.plots import Plot, View, plot_text, short
from excora.report.records import ComparisonRecord, Record
from excora.report.sections import BOTH, Made, Missing, Section, section
from excora.report.tables import Cell, Column, Table, between

#: verdict: (colour, symbol)
LOOKS = {
    "better": ("@c1", "triangle-right"),
    "no difference": ("@c4", "circle"),
    "cannot tell": ("@muted", "circle-open"),
    "worse": ("@c2", "triangle-left"),
}


@section("comparison", "Comparison of models", place=200, reads=BOTH)
def comparison(record: Record) -> Made:
    """The models side by side, and what of it is more than noise."""
    found = record if isinstance(record, ComparisonRecord) else record.comparison
    if found is None or not found.rows:
        return Missing("nothing was compared with yet; `excora compare` with the same `--output` does it.")
    labels = {row.model: row.label for row in found.rows}
    reference = labels.get(found.reference, found.reference)
    runs = plural(max(len(row.runs) for row in found.rows), "run")
    margin = found.setup.get("margin")
    note = (
        f"PCC, MSE and MAE are over all test samples together, each predicted once a seed, mean over seeds. Folds: the "
        f"lowest and the highest PCC of {runs} on the same folds and features. Difference: PCC minus that of "
        f"{reference}, with its 95 % interval. “Cannot tell”: the interval holds 0."
    )
    if isinstance(margin, float):
        note += f" “No difference”: it lies between −{margin:g} and {margin:g}."
    # Without a verdict on the run, the sentence is on top of the page.
    judged = not isinstance(record, ComparisonRecord) and record.results is not None and record.results.verdict
    return Section(
        template="comparison.html", lead=found.sentence if judged else "", tables=[_models(found)],
        plots=[*_folds(found.rows), *_differences(found.pairs, labels)], values={"note": note},
    )  # fmt: skip


def _models(found: ComparisonRecord) -> Table:
    pairs = {pair.model: pair for pair in _both_ways(found.pairs) if pair.against == found.reference}
    rows: list[list[Cell]] = []
    for row in sorted(found.rows, key=_height, reverse=True):
        pair = pairs.get(row.model)
        rest: list[Cell] = [None, None, "reference" if row.model == found.reference else ""]
        if pair is not None:
            rest = [pair.difference, between(pair.low, pair.high), pair.verdict]
        known = _known(row)
        folds = between(min(known), max(known)) if known else None
        rows.append([row.label, row.pcc, folds, *rest, row.mse, row.mae, row.seconds])
    columns = [
        Column("Model"), Column("PCC", correlation), Column("Folds", correlation), Column("Difference", signed),
        Column("95 % interval", correlation), Column("Verdict"), Column("MSE", figure), Column("MAE", figure),
        Column("Seconds", lambda value: figure(value, 3)),
    ]  # fmt: skip
    return Table("Models on the same data", columns, rows, sortable=True)


def _height(row: ModelRow) -> float:
    return -2.0 if row.pcc is None else row.pcc


def _known(row: ModelRow) -> list[float]:
    """The PCC of its runs, where defined."""
    return [run.pcc for run in row.runs if run.pcc is not None]


def _both_ways(pairs: list[Pair]) -> list[Pair]:
    """Every pair from either side, once."""
    every = {(pair.model, pair.against): pair for pair in (*(pair.turned() for pair in pairs), *pairs)}
    return list(every.values())


def _folds(rows: list[ModelRow]) -> list[Plot]:
    """The PCC of each run as a dot, and over all samples as a diamond, the best on top; nothing where none is known."""
    ranked = sorted(rows, key=_height)
    if not any(map(_known, rows)):
        return []
    names = [row.label for row in ranked]
    dots = [(short(pcc), place) for place, row in enumerate(ranked) for pcc in _known(row)]
    whole = [(short(row.pcc), place) for place, row in enumerate(ranked) if row.pcc is not None]
    looks = [("One fold of one seed", dots, {"color": "@c1", "size": 7, "opacity": 0.55}),
             ("All samples", whole, {"color": "@c2", "size": 11, "symbol": "diamond"})]  # fmt: skip
    traces = [
        {"type": "scatter", "mode": "markers", "name": name, "x": [x for x, _ in points], "y": [y for _, y in points],
         "marker": marker, "text": [plot_text(names[y]) for _, y in points],
         "hovertemplate": "%{text}<br>%{x:.3f}<extra></extra>"}
        for name, points, marker in looks
    ]  # fmt: skip
    sentence = "PCC of each model on each fold, and over all test samples together."
    table = [
        [row.label, f"seed {run.seed}, fold {run.fold + 1}", run.pcc] for row in reversed(ranked) for run in row.runs
    ]
    data = Table("PCC by fold", [Column("Model"), Column("Run"), Column("PCC", correlation)], table)
    views = {"": View(traces, _layout(names, "PCC"))}
    return [Plot("by-fold", "PCC by fold", sentence, views, data)]


def _differences(pairs: list[Pair], labels: dict[str, str]) -> list[Plot]:
    """A dot and its interval for each pair, the best on top; a view for each model that others are compared with."""
    if not pairs:
        return []
    views: dict[str, View] = {}
    rows: list[list[Cell]] = []
    pairs = _both_ways(pairs)
    for against in _ranked(pairs):
        mine = sorted((pair for pair in pairs if pair.against == against), key=lambda pair: pair.difference)
        names = [labels.get(pair.model, pair.model) for pair in mine]
        other = labels.get(against, against)
        traces = [_trace(verdict, mine, names) for verdict in LOOKS if any(p.verdict == verdict for p in mine)]
        views[other] = View(traces, _layout(names, f"PCC minus<br>{plot_text(other, 20)}"))
        for name, pair in zip(reversed(names), reversed(mine), strict=True):
            rows.append([name, other, pair.difference, between(pair.low, pair.high), pair.verdict])
    sentence = (
        "How much higher or lower the PCC of each model is, with 95 % intervals; all pairs are judged at once. Where "
        "an interval crosses 0, one cannot tell which of both is better."
    )
    columns = [Column("Model"), Column("Compared with"), Column("Difference", signed),
               Column("95 % interval", correlation), Column("Verdict")]  # fmt: skip
    data = Table("Paired differences in PCC", columns, rows)
    return [Plot("differences", "Differences with their intervals", sentence, views, data, menu="Compared with")]


def _ranked(pairs: list[Pair]) -> list[str]:
    """The models that others are compared with, from the one that is ahead of most."""
    names = dict.fromkeys(pair.against for pair in pairs)
    return sorted(names, key=lambda name: sum(pair.difference for pair in pairs if pair.against == name))


def _layout(names: list[str], title: str) -> dict[str, Any]:
    """``title`` of the axis, safe for plotly."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": [plot_text(name, 22) for name in names]}
    return {
        "xaxis": {"title": {"text": title}, "zeroline": True, "tickformat": ".3~f", "tickangle": 0},
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
