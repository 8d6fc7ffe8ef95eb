"""Predicted against true, and the scores of each target and each group."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.report.markup import (
    Cell,
    Column,
    Missing,
    Plot,
    Section,
    Shown,
    View,
    correlation,
    count,
    figure,
    plot_text,
    plural,
    short,
    table,
)
from excora.report.reading import Content, Predictions

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


def scatter(content: Content) -> Section | Missing:
    """Predicted against true, coloured by group, with the identity line; several targets in a menu."""
    title, found = "Predictions", content.predictions
    if found is None or not len(found):
        return Missing(title, "there are no predictions in predictions.csv.")
    names = _chosen(content, list(found.target))
    rows = _sample(len(found), max(POINTS // len(names), 500))
    groups = _groups(found, rows)
    views = {name: _view(found, name, groups) for name in names}
    where = plural(len(found), f"{found.part} sample")
    drawn = f"{len(rows):,} of the {where}, drawn at random" if len(rows) < len(found) else f"all {where}"
    sentence = f"Each point is a sample ({drawn}): the closer to the dotted line, the better its prediction."
    notes = []
    if len(names) < len(found.target):
        notes.append(f"{len(names)} of {len(found.target):,} targets, from the highest PCC to the lowest.")
    if found.group is not None:
        notes.append(f"Coloured by group, {len(set(found.group)):,} in all.")
    data = _tenths(found, names)
    plot = Plot("scatter", "Predicted against true", sentence, views, data, " ".join(notes), "Target", "square")
    return Section("predictions", title, plot.markup(), (plot,))


def targets(content: Content) -> Section | Missing:
    """A row for each target."""
    title = "Scores by target"
    if content.results is None:
        return Missing(title, "there is no results.json.")
    test, validation = content.results["test"], content.results["validation"]
    rows: list[list[Cell]] = []
    for name in test or validation:
        s, v = test.get(name, {}), validation.get(name, {})
        scores = [s.get("pcc"), between(s.get("low"), s.get("high")), s.get("mse"), s.get("mae")]
        rows.append([name, *scores, v.get("pcc"), v.get("mse")])
    if not rows:
        return Missing(title, "results.json has no scores.")
    columns = [
        Column("Target"), Column("Test PCC", correlation), Column("95 % interval", correlation),
        Column("Test MSE", figure), Column("Test MAE", figure), Column("Validation PCC", correlation),
        Column("Validation MSE", figure),
    ]  # fmt: skip
    return Section("targets", title, table("Test and validation scores", columns, rows, sortable=True))


def groups(content: Content) -> Section | Missing:
    """A row for each group of the test part."""
    title = "Scores by group"
    found = [] if content.results is None else content.results.get("groups", {}).get("test", [])
    if not found:
        return Missing(title, "results.json has none: the data was given no group column, or the run has not ended.")
    columns = [Column("Group"), Column("Test samples", count), Column("PCC", correlation), Column("MSE", figure)]
    rows = [[str(g["group"]), g["n"], g["pcc"], g["mse"]] for g in found]
    known = [g["pcc"] for g in found if g["pcc"] is not None]
    lead = f"{plural(len(found), 'group')} in the test part."
    if known:
        lead += f" Their correlations run from {correlation(min(known))} to {correlation(max(known))}."
    if len(known) < len(found):
        lead += f" In {len(found) - len(known):,} the correlation is undefined, a dash: too few or constant values."
    return Section("groups", title, f"<p>{lead}</p>" + table("Test scores by group", columns, rows, sortable=True))


def between(low: float | None, high: float | None) -> Shown:
    """An interval as a cell, sorted by its lower end."""
    if low is None or high is None:
        return Shown(None, "–")
    return Shown(low, f"{correlation(low)} to {correlation(high)}")


def _chosen(content: Content, names: list[str]) -> list[str]:
    """All targets, or of many some from the highest test PCC to the lowest."""
    if len(names) <= MENU:
        return names
    scores = {} if content.results is None else content.results["test"] or content.results["validation"]
    ranked = sorted(names, key=lambda name: -(scores.get(name, {}).get("pcc") or 0.0))
    return [ranked[round(i)] for i in np.linspace(0, len(names) - 1, MENU)]


def _sample(rows: int, most: int) -> Index:
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _groups(found: Predictions, rows: Index) -> list[Group]:
    """The sampled rows of the largest groups, and those of all other groups together."""
    if found.group is None:
        return [Group(found.part, rows, "@c1", SYMBOLS[0])]
    ranked = [name for name, _ in sorted(Counter(found.group).items(), key=lambda item: (-item[1], item[0]))]
    own = sorted(ranked[:COLORS])
    place = {name: number for number, name in enumerate(own)}
    number = np.array([place.get(found.group[row], COLORS) for row in rows])
    names = [*own, f"{plural(len(ranked) - len(own), 'other group')}"]
    colored = [Group(name, rows[number == k], f"@c{k + 1}", SYMBOLS[k]) for k, name in enumerate(names[:-1])]
    return colored + ([Group(names[-1], rows[number == COLORS], "@c8", SYMBOLS[-1])] if len(ranked) > COLORS else [])


def _view(found: Predictions, name: str, groups: list[Group]) -> View:
    truth, guess = found.target[name], found.prediction[name]
    low, high = float(min(truth.min(), guess.min())), float(max(truth.max(), guess.max()))
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
    words = [plot_text(found.ids[row]) for row in group.rows]
    if found.group is not None:
        words = [f"{word} · {plot_text(found.group[row])}" for word, row in zip(words, group.rows, strict=True)]
    return {
        "type": "scatter", "mode": "markers", "name": group.name, "text": words,
        "x": [short(value) for value in found.target[name][group.rows]],
        "y": [short(value) for value in found.prediction[name][group.rows]],
        "marker": {"color": group.color, "size": 7, "opacity": 0.7, "symbol": group.symbol},
        "hovertemplate": "%{text}<br>true %{x:.4g}<br>predicted %{y:.4g}<extra></extra>",
    }  # fmt: skip


def _tenths(found: Predictions, names: list[str]) -> str:
    """Tenths of all samples by true value, with their mean prediction: what the points show, without seeing them."""
    columns = [Column("Samples", count), Column("Mean true", figure), Column("Mean predicted", figure)]
    rows: list[list[Cell]] = []
    for name in names:
        truth, guess = found.target[name], found.prediction[name]
        order = np.argsort(truth, kind="stable")
        for part in np.array_split(order, min(10, len(order))):
            span = f"{figure(float(truth[part[0]]))} to {figure(float(truth[part[-1]]))}"
            means: list[Cell] = [len(part), float(truth[part].mean()), float(guess[part].mean())]
            rows.append([*([name] if len(names) > 1 else []), span, *means])
    first = [*([Column("Target")] if len(names) > 1 else []), Column("True values")]
    return table("Tenths of the samples by true value", [*first, *columns], rows)
