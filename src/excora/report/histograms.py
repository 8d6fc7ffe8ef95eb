"""Histograms: bars at equal distances with the edges as ticks, which serves round steps and equal ratios alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from excora.report.numerals import count, figure
from excora.report.plots import Plot, View, whole
from excora.report.tables import Column, Table

BINS = 24


def bin_edges(values: Sequence[float]) -> list[float]:
    """Edges of about 24 bins that hold all values: round steps, or equal ratios for values that span decades.

    >>> bin_edges([0.11, 0.19])[:3], [round(edge, 2) for edge in bin_edges([3.0, 3.0])]
    ([0.11, 0.115, 0.12], [2.85, 3.15])
    """
    low, high = min(values), max(values)
    if high - low <= 5e-4 * max(abs(low), abs(high)):  # alike, for all that a reader could see
        reach = 0.05 * abs(low) or 0.5
        return [low - reach, low + reach]
    if low > 0 and 50 < high / low < 1e18:  # beyond, the small ones might as well be 0
        steps = 10 if high / low < 500 else 5  # a decade; ten of them come near 1, 2, 5
        first, last = math.floor(steps * math.log10(low)), math.ceil(steps * math.log10(high))
        edges = [10 ** (k / steps) for k in range(first, last + 1)]
    else:
        rough = (high - low) / BINS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
        first, last = math.floor(low / step), math.floor(high / step) + 1
        edges = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
    return [min(edges[0], low), *edges[1:-1], max(edges[-1], high)]


def digits(values: Sequence[float], parts: int = 10) -> int:
    """How many significant digits tell that many parts of the values' range apart: 3, or up to 6.

    >>> digits([0.5, 2.0]), digits([1.008, 1.014])
    (3, 5)
    """
    size, spread = max(map(abs, values)), max(values) - min(values)
    return 3 if spread <= 5e-4 * size else min(max(3, math.ceil(math.log10(size / spread * parts)) + 1), 6)


def _ticks(edges: list[float]) -> dict[int, str]:
    """Places and words of some edges: round numbers of equal ratios, or every few of equal steps."""
    if len(edges) > 2 and edges[0] > 0 and edges[-1] / edges[0] > 50:
        rounded = {place: f"{edge:.1g}" for place, edge in enumerate(edges)}
        first = ("1", "2", "5") if edges[-1] / edges[0] < 500 else ("1",)
        near = {p: words for p, words in rounded.items() if abs(float(words) / edges[p] - 1) < 0.01}
        return {p: f"{float(words):g}" for p, words in near.items() if words.strip("0.")[0] in first}
    words = [f"{edge:.{digits(edges, len(edges) - 1)}g}" for edge in edges]
    most = 6 if max(map(len, words)) < 6 else 4
    return {place: words[place] for place in range(0, len(edges), -(-len(edges) // most))}


def histogram(
    name: str,
    title: str,
    values: Sequence[float],
    sentence: str,
    *,
    mark: str = "",
    note: str = "",
    of: str = "samples",
) -> Plot:
    """Bars at equal distances with the edges as ticks, which serves round steps and equal ratios alike.

    ``mark`` names the quantity, and has a line drawn where it is 1. ``of``: what is counted.
    """
    edges = bin_edges(values)
    counts = np.histogram(values, edges)[0].tolist()
    exact = digits(edges, len(counts))
    spans = [f"{figure(a, exact)} to {figure(b, exact)}" for a, b in pairwise(edges)]
    ticks = _ticks(edges)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": title}, "tickvals": list(ticks), "ticktext": list(ticks.values()),
                  "tickangle": 0, "range": [-0.5, len(counts) + 0.5], "showgrid": False},
        "yaxis": {"title": {"text": of.capitalize()}, "rangemode": "tozero", "tickformat": ",d"} | whole(max(counts)),
        "bargap": 0.06, "hovermode": "closest",
    }  # fmt: skip
    if mark and edges[0] <= 1 <= edges[-1]:
        layout |= _mark(float(np.interp(1, edges, range(len(edges)))), f"{mark} = 1")
    bars = {
        "type": "bar", "name": title, "x": [i + 0.5 for i in range(len(counts))], "y": counts, "text": spans,
        "textposition": "none", "marker": {"color": "@c1"},
        "hovertemplate": f"%{{text}}<br>%{{y:,d}} {of}<extra></extra>",
    }  # fmt: skip
    rows = [[span, number] for span, number in zip(spans, counts, strict=True)]
    data = Table(f"{title}: {of} in each range", [Column("Range"), Column(of.capitalize(), count)], rows)
    return Plot(name, title, sentence, {"": View([bars], layout)}, data, note)


def _mark(place: float, words: str) -> dict[str, Any]:
    """An upright line with words on top."""
    line = {"type": "line", "xref": "x", "yref": "paper", "x0": place, "x1": place, "y0": 0, "y1": 1,
            "line": {"color": "@muted", "width": 1.5, "dash": "dot"}}  # fmt: skip
    label = {"xref": "x", "yref": "paper", "x": place, "y": 1, "yanchor": "bottom", "showarrow": False, "text": words,
             "font": {"size": 12, "color": "@muted"}}  # fmt: skip
    return {"shapes": [line], "annotations": [label]}
