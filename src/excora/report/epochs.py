"""Figures over epochs: what the sections about training share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from excora.report.plots import short, whole
from excora.report.records import Epochs
from excora.report.tables import Cell

ROWS = 60  # of the table under a plot: more epochs are thinned out
STANDARD = "On the standardised target: always predicting the average gives about 1."
Curve = dict[int, float]  # epoch: value, where it is defined


def counted(epoch: float | None) -> int:
    """The number of an epoch as people count, from 1; 0 for none."""
    return 0 if epoch is None else int(epoch) + 1


def curve(rows: Epochs, name: str) -> Curve:
    """One figure of the rows."""
    values = {counted(row["epoch"]): row.get(name) for row in rows}
    return {epoch: value for epoch, value in values.items() if value is not None}


def first(values: Curve) -> float:
    """Of the first epoch."""
    return values[min(values)]


def last(values: Curve) -> float:
    """Of the last epoch."""
    return values[max(values)]


def line(name: str, values: Curve, color: str) -> dict[str, Any]:
    """A trace."""
    return {
        "type": "scatter", "mode": "lines+markers" if len(values) < 25 else "lines", "name": name,
        "x": list(values), "y": [short(value) for value in values.values()],
        "line": {"color": color, "width": 2}, "marker": {"color": color, "size": 5},
        "hovertemplate": "%{y:.4g}",
    }  # fmt: skip


def axes(label: str, *drawn: Curve) -> dict[str, Any]:
    """A layout for the curves."""
    low, high = (end(epoch for values in drawn for epoch in values) for end in (min, max))
    epochs = {"title": {"text": "Epoch"}, "tickformat": "d", **whole(high - low)}
    if high - low < 25:  # their markers need room, but there is no epoch 0
        epochs["range"] = [low - 0.5, high + 0.5]
    return {"xaxis": epochs, "yaxis": {"title": {"text": label}}, "hovermode": "x unified"}


def table_rows(drawn: Sequence[Curve], best: int = 0) -> list[list[Cell]]:
    """A row an epoch, or every few epochs of a long run, with the best and the last among them."""
    epochs = sorted({epoch for values in drawn for epoch in values})
    keep = {*epochs[:: -(-len(epochs) // ROWS)], epochs[-1], best}
    return [[epoch, *(values.get(epoch) for values in drawn)] for epoch in epochs if epoch in keep]
