"""Figures over epochs: PCC and MSE with the plateau marked, the parts of the MSE, the gradient ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from excora.diagnosis import detect_plateau
from excora.report.markup import (
    Cell,
    Column,
    Missing,
    Plot,
    Section,
    View,
    correlation,
    count,
    figure,
    fold,
    plural,
    short,
    table,
)
from excora.report.reading import Content
from excora.report.words import PARTS, STATES, STOPPED

ROWS = 60  # of the table under a plot: more epochs are thinned out
STANDARD = "On the standardised target: always predicting the average gives about 1."
Curve = dict[int, float]  # epoch: value, where it is defined; people count epochs from 1, the files from 0


def curves(content: Content) -> Section | Missing:
    """PCC and MSE of training and validation over epochs."""
    title = "Training"
    shown = (("pcc", "Correlation (PCC)", correlation, ""), ("mse", "Error (MSE)", figure, STANDARD))
    found = {name: _parts_of(content, name) for name, *_ in shown}
    if not any(found.values()):
        return Missing(title, "there is no epoch in metrics.csv or monitor.json.")
    state, detail, flat = _plateau(content.records or [])
    best = 0 if content.results is None else _counted(content.results["best_epoch"])
    plots = []
    for name, label, show, note in shown:
        drawn = found[name]
        if drawn:
            columns = [Column("Epoch", count), *(Column(part, show) for part in drawn)]
            data = table(f"{label} by epoch", columns, _rows(list(drawn.values()), best))
            spans = (f"{part.lower()} from {show(_first(c))} to {show(_last(c))}" for part, c in drawn.items())
            sentence = f"{label}: {'; '.join(spans)}."
            view = _view(drawn, label, best, flat, zero=name == "mse")
            plots.append(Plot(name, label, sentence, {"": view}, data, note))
    body = f"<p>{state} {_end(content.results)}</p><div class=pair>{''.join(plot.markup() for plot in plots)}</div>"
    return Section("curves", title, body + detail, tuple(plots))


def parts(content: Content) -> Section | Missing:
    """The three parts of the MSE as stacked areas."""
    title = "What the error is made of"
    found = {name: _recorded(content, name) for name in PARTS}
    if not all(found.values()):
        return Missing(title, "monitor.json has no parts of the MSE.")
    traces = []
    for name, color in zip(PARTS, ("@c1", "@c2", "@c3"), strict=True):
        area = {"stackgroup": "mse", "mode": "lines", "line": {"width": 0.5, "color": color}, "fillcolor": color}
        traces.append(_line(PARTS[name][0], found[name], color) | area)
    columns = [Column("Epoch", count), *(Column(PARTS[name][0], figure) for name in PARTS)]
    data = table("Parts of the mean squared error by epoch", columns, _rows(list(found.values())))
    last = {name: _last(curve) for name, curve in found.items()}
    total = sum(last.values())
    shares = (
        ", ".join(f"{PARTS[n][0].lower()} {100 * v / total:.0f} %" for n, v in last.items())
        if total > 0
        else "none left"
    )
    sentence = f"The training error over the epochs, split into three parts. In the last epoch: {shares}."
    what = "".join(f"<li><b>{name}</b>: {meaning}.</li>" for name, meaning in PARTS.values())
    view = View(traces, _axes("Mean squared error"))
    plot = Plot("parts", "Parts of the MSE", sentence, {"": view}, data, STANDARD)
    return Section("error-parts", title, f"<ul>{what}</ul>{plot.markup()}", (plot,))


def gradients(content: Content) -> Section | Missing:
    """The gradient ratio under its bound, on a log axis."""
    title = "What drives the training"
    ratio, bound = (
        {epoch: value for epoch, value in _recorded(content, name).items() if value > 0}  # what a log axis can show
        for name in ("gradient_ratio", "gradient_ratio_bound")
    )
    if not ratio:
        return Missing(title, "monitor.json has no gradient ratio.")
    traces = [_line("Ratio", ratio, "@c1")]
    if bound:
        dashed = {"line": {"color": "@c2", "width": 2, "dash": "dash"}, "mode": "lines"}
        traces.append(_line("Upper bound", bound, "@c2") | dashed)
    layout = _axes("Pull of PCC / pull of MSE")
    ticks = _ticks([*ratio.values(), *bound.values()])
    layout["yaxis"] |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    columns = [Column("Epoch", count), Column("Ratio", figure), Column("Upper bound", figure)]
    data = table("Gradient ratio by epoch", columns, _rows([ratio, bound]))
    sentence = (
        "How hard the correlation pulls at the model, relative to the squared error: "
        f"{figure(_first(ratio), 3)} in the first epoch, {figure(_last(ratio), 3)} in the last."
    )
    note = (
        "The axis counts in factors: equal steps up are equal factors. Below 1 the squared error has the upper hand; "
        "far below 1 the correlation is hardly trained any more. The dashed line is the most that theory allows then."
    )
    plot = Plot("gradients", "Gradient ratio", sentence, {"": View(traces, layout)}, data, note)
    return Section("gradient-ratio", title, plot.markup(), (plot,))


def _recorded(content: Content, name: str) -> Curve:
    """A figure of the monitor."""
    values = ((record["epoch"], record.get(name)) for record in content.records or [])
    return {_counted(epoch): value for epoch, value in values if value is not None}


def _counted(epoch: float | None) -> int:
    """The number of an epoch, from 1; 0 for none."""
    return 0 if epoch is None else int(epoch) + 1


def _parts_of(content: Content, name: str) -> dict[str, Curve]:
    """The curves of training and validation, those that are there."""
    metrics = content.metrics or {"epoch": [], f"validation_{name}": []}
    values = zip(metrics["epoch"], metrics[f"validation_{name}"], strict=True)
    measured = {_counted(epoch): value for epoch, value in values if value is not None}
    found = {"Training": _recorded(content, name), "Validation": measured}
    return {part: curve for part, curve in found.items() if curve}


def _first(curve: Curve) -> float:
    return curve[min(curve)]


def _last(curve: Curve) -> float:
    return curve[max(curve)]


def _plateau(records: list[dict[str, float | None]]) -> tuple[str, str, int | None]:
    """What the detector says in words, in numbers, and the epoch from which on PCC is flat."""
    if not records:
        return "", "", None
    found = detect_plateau([r["pcc"] for r in records], [r["mse"] for r in records])
    flat = None if found.start is None else _counted(records[found.start]["epoch"])  # the detector counts records
    state = STATES[found.state].format(start=flat)
    if found.pcc is None or found.mse is None:
        return state, "", flat
    changes = [f"{name} changed by {figure(t.change, 3)} ({figure(t.low, 3)} to {figure(t.high, 3)})"
               for name, t in (("PCC", found.pcc), ("MSE", found.mse))]  # fmt: skip
    words = f"On the training part, over the last {found.window} epochs, with 95 % intervals: {', '.join(changes)}."
    return state, fold("The plateau test in numbers", f"<p>{words}</p>"), flat


def _end(results: dict[str, Any] | None) -> str:
    """Which epoch was kept, and why training ended."""
    if results is None:
        return ""
    best, epochs = _counted(results["best_epoch"]), plural(results["epochs"], "epoch")
    kept = f"The model kept is that of epoch {best} of {epochs}, the best on the validation part." if best else ""
    return f"{kept} {STOPPED.get(results.get('stopped') or '', '')}"


def _line(name: str, curve: Curve, color: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers" if len(curve) < 25 else "lines", "name": name,
        "x": list(curve), "y": [short(value) for value in curve.values()],
        "line": {"color": color, "width": 2}, "marker": {"color": color, "size": 5},
        "hovertemplate": "%{y:.4g}",
    }  # fmt: skip


def _axes(label: str) -> dict[str, Any]:
    epochs = {"title": {"text": "Epoch"}, "tickformat": "d"}
    return {"xaxis": epochs, "yaxis": {"title": {"text": label}}, "hovermode": "x unified"}


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten for a log axis; powers of ten alone where the values span decades."""
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    return [factor * 10.0**power for power in powers[:: -(-len(powers) // 8)] for factor in factors]


def _view(drawn: dict[str, Curve], label: str, best: int, flat: int | None, *, zero: bool) -> View:
    """The curves, the plateau as a band, the best epoch as a diamond."""
    colors = {"Training": "@c1", "Validation": "@c2"}
    traces = [_line(part, curve, colors[part]) for part, curve in drawn.items()]
    layout = _axes(label)
    if zero:
        layout["yaxis"]["rangemode"] = "tozero"
    if flat is not None:
        end = max(max(curve) for curve in drawn.values())
        band = {"type": "rect", "xref": "x", "yref": "paper", "x0": flat, "x1": end, "y0": 0, "y1": 1,
                "layer": "below", "fillcolor": "@band", "line": {"width": 0}}  # fmt: skip
        words = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right", "yanchor": "bottom",
                 "showarrow": False, "text": f"PCC flat from epoch {flat}",
                 "font": {"size": 12, "color": "@muted"}}  # fmt: skip
        layout |= {"shapes": [band], "annotations": [words]}
    validation = drawn.get("Validation", {})
    if best in validation:
        mark = {"color": "@c2", "size": 12, "symbol": "diamond", "line": {"color": "@surface", "width": 2}}
        point = {"x": [best], "y": [short(validation[best])], "mode": "markers", "marker": mark}
        traces.append({"type": "scatter", "name": f"Best epoch ({best})", "hovertemplate": "%{y:.4g}", **point})
    return View(traces, layout)


def _rows(drawn: Sequence[Curve], best: int = 0) -> list[list[Cell]]:
    """A row an epoch, or every few epochs of a long run, with the best and the last among them."""
    epochs = sorted({epoch for curve in drawn for epoch in curve})
    keep = {*epochs[:: -(-len(epochs) // ROWS)], epochs[-1], best}
    return [[epoch, *(curve.get(epoch) for curve in drawn)] for epoch in epochs if epoch in keep]
