"""PCC and MSE over epochs, with the plateau marked."""

from __future__ import annotations

from excora.diagnosis import detect_plateau
from excora.report.epochs import STANDARD, Curve, axes, counted, curve, first, last, line, table_rows
from excora.report.numerals import correlation, count, figure, plural
from excora.report.parts import Results
from excora.report.plots import Plot, View, short
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Column, Table
from excora.report.words import STATES, STOPPED

COLORS = {"Training": "@c1", "Validation": "@c2"}
SHOWN = (("pcc", "Correlation (PCC)", correlation, ""), ("mse", "Error (MSE)", figure, STANDARD))


@section("curves", "Training", place=300)
def curves(record: RunRecord) -> Made:
    """Training and validation."""
    if record.results is not None and record.results.stopped == "fitted":
        return Missing("the model is fitted as a whole, not in epochs.")
    state, detail, flat = _plateau(record)
    best = 0 if record.results is None else counted(record.results.best_epoch)
    plots = []
    for name, label, show, note in SHOWN:
        found = {"Training": curve(record.monitor, name), "Validation": curve(record.metrics, f"validation_{name}")}
        drawn = {part: values for part, values in found.items() if values}
        if drawn:
            columns = [Column("Epoch", count), *(Column(part, show) for part in drawn)]
            data = Table(f"{label} by epoch", columns, table_rows(list(drawn.values()), best))
            spans = (f"{part.lower()} from {show(first(c))} to {show(last(c))}" for part, c in drawn.items())
            view = _view(drawn, label, best, flat, zero=name == "mse")
            plots.append(Plot(name, label, f"{label}: {'; '.join(spans)}.", {"": view}, data, note))
    if not plots:
        return Missing("no epoch has ended yet.")
    lead = " ".join(filter(None, (state, *_end(record.results))))
    return Section(template="curves.html", lead=lead, plots=plots, values={"detail": detail})


def _plateau(record: RunRecord) -> tuple[str, str, int | None]:
    """What the detector says of validation, or without it of training, in words, in numbers, and from when on PCC is
    flat there.
    """
    records, before, part = record.metrics, "validation_", "validation"
    if not any(row.get("validation_pcc") is not None for row in records):
        records, before, part = record.monitor, "", "training"
    if not records:
        return "", "", None
    found = detect_plateau(*([row.get(before + name) for row in records] for name in ("pcc", "mse")))
    flat = None if found.start is None else counted(records[found.start]["epoch"])  # the detector counts records
    state = STATES[found.state].format(part=part, start=flat)
    if found.pcc is None or found.mse is None:
        return state, "", flat
    changes = [f"{name} changed by {figure(t.change, 3)} ({figure(t.low, 3)} to {figure(t.high, 3)})"
               for name, t in (("PCC", found.pcc), ("MSE", found.mse))]  # fmt: skip
    words = f"On the {part} part, over the last {found.window} epochs, with 95 % intervals: {', '.join(changes)}."
    return state, words, flat


def _end(results: Results | None) -> tuple[str, ...]:
    """Which epoch was kept, and why training ended."""
    if results is None:
        return ()
    best, epochs = counted(results.best_epoch), plural(results.epochs, "epoch")
    if results.best_epoch is not None and results.best_epoch < 0:
        return "No epoch was better on the validation part than the ridge it starts from, which is kept.", STOPPED.get(
            results.stopped or "", ""
        )
    kept = f"The model kept is that of epoch {best} of {epochs}, the best on the validation part." if best else ""
    return kept, STOPPED.get(results.stopped or "", "")


def _view(drawn: dict[str, Curve], label: str, best: int, flat: int | None, *, zero: bool) -> View:
    """The curves, the plateau as a band, the best epoch as a diamond."""
    part = "Validation" if "Validation" in drawn else "Training"
    traces = [line(part, values, COLORS[part]) for part, values in drawn.items()]
    layout = axes(label, *drawn.values())
    if zero:
        layout["yaxis"]["rangemode"] = "tozero"
    if flat is not None:
        end = max(max(values) for values in drawn.values())
        band = {"type": "rect", "xref": "x", "yref": "paper", "x0": flat, "x1": end, "y0": 0, "y1": 1,
                "layer": "below", "fillcolor": "@band", "line": {"width": 0}}  # fmt: skip
        words = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right", "yanchor": "bottom",
                 "showarrow": False, "text": f"{part} PCC flat from epoch {flat}",
                 "font": {"size": 12, "color": "@muted"}}  # fmt: skip
        layout |= {"shapes": [band], "annotations": [words]}
    validation = drawn.get("Validation", {})
    if best in validation:
        mark = {"color": "@c2", "size": 12, "symbol": "diamond", "line": {"color": "@surface", "width": 2}}
        point = {"x": [best], "y": [short(validation[best])], "mode": "markers", "marker": mark}
        traces.append({"type": "scatter", "name": f"Best epoch ({best})", "hovertemplate": "%{y:.4g}", **point})
    return View(traces, layout)
