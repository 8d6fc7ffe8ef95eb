"""Predicted against true, coloured by group."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.report.numerals import count, figure, plural
from excora.report.parts import Predictions
from excora.report.plots import Plot, View, plot_text, short
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Cell, Column, Table

Index = NDArray[np.intp]
POINTS = 4000  # drawn in all, at least 500 a target
MENU = 8  # targets to choose from
COLORS = 7  # groups with a colour of their own
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "circle-open")


class Group(NamedTuple):
    """Rows that share a colour."""

    name: str
    rows: Index
    color: str
    symbol: str


@section("predictions", "Predictions", place=400)
def predictions(record: RunRecord) -> Made:
    """Of the test part, with the identity line; several targets in a menu."""
    found = record.predictions
    if found is None or not found.ids:
        return Missing("the run has no predictions yet.")
    part = "test" if "test" in found.part else "validation"
    mine = np.flatnonzero(np.array(found.part) == part)
    labelled = {name: mine[found.drawable(name)[mine]] for name in found.target}
    names = _chosen(record, [name for name, rows in labelled.items() if len(rows)])
    if not names:
        return Missing(f"no sample of the {part} part has a label.")
    drawn = _sample(mine, max(POINTS // len(names), 500))
    groups = _groups(found, mine, drawn, part)
    views = {name: _view(found, name, labelled[name], groups) for name in names}
    where = plural(len(mine), f"{part} sample")
    all_of = f"{len(drawn):,} of the {where}, drawn at random" if len(drawn) < len(mine) else f"all {where}"
    sentence = f"Each point is a sample ({all_of}): the closer to the dotted line, the better its prediction."
    notes = []
    if len(names) < len(found.target):
        notes.append(f"{len(names)} of {len(found.target):,} targets, from the highest PCC to the lowest.")
    if found.group is not None:
        number = len({found.group[row] for row in mine})
        notes.append(f"Coloured by group, {number:,} in all." if number > 1 else "All of one group.")
    data = _tenths(found, {name: labelled[name] for name in names})
    plot = Plot("scatter", "Predicted against true", sentence, views, data, " ".join(notes), "Target", "square")
    return Section(plots=[plot])


def _chosen(record: RunRecord, names: list[str]) -> list[str]:
    """All targets, or of many some from the highest test PCC to the lowest."""
    if len(names) <= MENU:
        return names
    scores = {} if record.results is None else record.results.scores
    pcc = {name: (scores[name].pcc if name in scores else None) or 0.0 for name in names}
    ranked = sorted(names, key=lambda name: -pcc[name])
    return [ranked[round(i)] for i in np.linspace(0, len(names) - 1, MENU)]


def _sample(rows: Index, most: int) -> Index:
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))]


def _groups(found: Predictions, rows: Index, drawn: Index, part: str) -> list[Group]:
    """The drawn rows of the largest groups, and those of all other groups together."""
    if found.group is None:
        return [Group(part, drawn, "@c1", SYMBOLS[0])]
    sizes = Counter(found.group[row] for row in rows)
    ranked = [name for name, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))]
    own = sorted(ranked[:COLORS])
    place = {name: number for number, name in enumerate(own)}
    number = np.array([place.get(found.group[row], COLORS) for row in drawn])
    colored = [Group(name, drawn[number == k], f"@c{k + 1}", SYMBOLS[k]) for k, name in enumerate(own)]
    others = plural(len(ranked) - len(own), "other group")
    return colored + ([Group(others, drawn[number == COLORS], "@c8", SYMBOLS[-1])] if len(ranked) > COLORS else [])


def _view(found: Predictions, name: str, rows: Index, groups: list[Group]) -> View:
    both = np.concatenate([found.target[name][rows], found.prediction[name][rows]])
    low, high = float(both.min()), float(both.max())
    margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.04
    limits = [short(low - margin), short(high + margin)]
    line = {"type": "line", "x0": limits[0], "y0": limits[0], "x1": limits[1], "y1": limits[1],
            "line": {"color": "@muted", "width": 1.5, "dash": "dot"}}  # fmt: skip
    label = plot_text(name, 24)
    layout = {"xaxis": {"title": {"text": f"True {label}"}, "range": limits},
              "yaxis": {"title": {"text": f"Predicted {label}"}, "range": limits},
              "hovermode": "closest", "shapes": [line]}  # fmt: skip
    return View([_points(found, name, group) for group in groups], layout)


def _points(found: Predictions, name: str, group: Group) -> dict[str, Any]:
    rows = group.rows[found.drawable(name)[group.rows]]
    words = [plot_text(found.ids[row]) for row in rows]
    if found.group is not None:
        words = [f"{word} · {plot_text(found.group[row])}" for word, row in zip(words, rows, strict=True)]
    return {
        "type": "scatter", "mode": "markers", "name": group.name, "text": words,
        "x": [short(value) for value in found.target[name][rows]],
        "y": [short(value) for value in found.prediction[name][rows]],
        "marker": {"color": group.color, "size": 7, "opacity": 0.7, "symbol": group.symbol},
        "hovertemplate": "%{text}<br>true %{x:.4g}<br>predicted %{y:.4g}<extra></extra>",
    }  # fmt: skip


def _tenths(found: Predictions, labelled: dict[str, Index]) -> Table:
    """Tenths of the samples by true value, with their mean prediction: what the points show, without seeing them."""
    several = len(labelled) > 1
    cells: list[list[Cell]] = []
    for name, rows in labelled.items():
        truth, guess = found.target[name][rows], found.prediction[name][rows]
        order = np.argsort(truth, kind="stable")
        for part in np.array_split(order, min(10, len(order))):
            span = f"{figure(float(truth[part[0]]))} to {figure(float(truth[part[-1]]))}"
            means: list[Cell] = [len(part), float(truth[part].mean()), float(guess[part].mean())]
            cells.append([*([name] if several else []), span, *means])
    first = [*([Column("Target")] if several else []), Column("True values")]
    columns = [Column("Samples", count), Column("Mean true", figure), Column("Mean predicted", figure)]
    return Table("Tenths of the samples by true value", [*first, *columns], cells)
