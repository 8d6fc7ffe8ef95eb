"""Attention: how many elements count, gamma and temperature, and the heaviest elements of chosen bags."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from excora.report.markup import Column, Missing, Plot, Section, View, count, figure, fold, plural, table, text
from excora.report.reading import Content
from excora.report.words import NEGATIVE, SHARES

BINS = 24
SHOWN = 6  # bags in sight; the others are folded
KEY = (
    "<p class=key><span><i class='swatch more'></i> effective share, toward the element</span> "
    "<span><i class='swatch less'></i> below 0, away from it</span> "
    "<span><i class=tick></i> attention share, before the gain</span></p>"
)


def histograms(content: Content) -> Section | Missing:
    """Effective number of elements, gamma and temperature over the bags of the test part."""
    title, found = "Attention", content.attention
    if found is None or not any(found[name] for name in ("effective_elements", "gamma", "temperature")):
        return Missing(title, "there is no attention.json, or no sample in it: this model weighs no elements.")
    plots = []
    if found["effective_elements"]:
        plots.append(_effective(found["effective_elements"], found["elements"]))
    if found["gamma"]:
        sentence = (
            f"The gain, gamma, of each sample: {_middle(found['gamma'])}. 1 is plain attention; above 1 the model "
            f"stretches it, below 1 it moves toward the plain average."
        )
        plots.append(_histogram("gamma", "Gain (gamma)", found["gamma"], sentence, mark="gamma"))
    if found["temperature"]:
        sentence = (
            f"The temperature of each sample: {_middle(found['temperature'])}. Higher spreads the attention over more "
            f"elements, lower focuses it on fewer."
        )
        plots.append(_histogram("temperature", "Temperature", found["temperature"], sentence, mark="temperature"))
    body = f"<p>{SHARES}</p><div class=trio>{''.join(plot.markup() for plot in plots)}</div>"
    left = [name for name in ("gamma", "temperature") if not found[name]]
    if left:
        body += f"<p class=note>This pool has no {' and no '.join(left)}.</p>"
    return Section("attention", title, body, tuple(plots))


def bags(content: Content) -> Section | Missing:
    """The heaviest elements of chosen bags, by effective weight."""
    title = "Heaviest elements"
    found = [bag for bag in (content.attention or {}).get("bags", []) if bag["top"]]
    if not found:
        return Missing(title, "attention.json names no sample with its elements.")
    lead = NEGATIVE if any(bag.get("gamma") is not None for bag in found) else SHARES
    body = f"<p class=callout>{lead}</p>{KEY}<div class=bags>{''.join(map(_card, found[:SHOWN]))}</div>"
    if len(found) > SHOWN:
        rest = "".join(map(_card, found[SHOWN:]))
        body += fold(plural(len(found) - SHOWN, "more sample"), f"<div class=bags>{rest}</div>")
    return Section("elements", title, body)


def _effective(effective: Sequence[float], elements: Sequence[int]) -> Plot:
    half = figure(statistics.median(effective), 3)
    sentence = (
        f"How many elements share the attention of a sample: in half of {len(effective):,} samples {half} or fewer"
    )
    sentence += f"; the middle sample has {count(statistics.median(elements))}." if elements else "."
    note = "Effective number of elements: 1 if all attention rests on one element, all of them if it is spread evenly."
    return _histogram("effective", "Effective number of elements", effective, sentence, note=note)


def _middle(values: Sequence[float]) -> str:
    low, middle, high = (figure(float(q), 3) for q in np.quantile(values, [0.1, 0.5, 0.9]))
    return f"{middle} in the middle, and between {low} and {high} for 80 % of {plural(len(values), 'sample')}"


def bin_edges(values: Sequence[float]) -> list[float]:
    """Edges of about 24 bins that hold all values: round steps, or equal ratios for values that span decades.

    >>> bin_edges([0.11, 0.19])[:3], [round(edge, 2) for edge in bin_edges([3.0, 3.0])]
    ([0.11, 0.115, 0.12], [2.85, 3.15])
    """
    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
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


def _ticks(edges: list[float]) -> dict[int, str]:
    """Places and words of some edges: round numbers of equal ratios, or every few of equal steps."""
    if len(edges) > 2 and edges[0] > 0 and edges[-1] / edges[0] > 50:
        rounded = {place: f"{edge:.1g}" for place, edge in enumerate(edges)}
        first = ("1", "2", "5") if edges[-1] / edges[0] < 500 else ("1",)
        near = {p: words for p, words in rounded.items() if abs(float(words) / edges[p] - 1) < 0.01}
        return {p: f"{float(words):g}" for p, words in near.items() if words.strip("0.")[0] in first}
    return {place: f"{edges[place]:.3g}" for place in range(0, len(edges), -(-len(edges) // 6))}


def _histogram(
    name: str, title: str, values: Sequence[float], sentence: str, *, mark: str = "", note: str = ""
) -> Plot:
    """Bars at equal distances with the edges as ticks, which serves round steps and equal ratios alike.

    ``mark`` names the quantity, and has a line drawn where it is 1.
    """
    edges = bin_edges(values)
    counts = np.histogram(values, edges)[0].tolist()
    spans = [f"{figure(a, 3)} to {figure(b, 3)}" for a, b in pairwise(edges)]
    ticks = _ticks(edges)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": title}, "tickvals": list(ticks), "ticktext": list(ticks.values()),
                  "range": [-0.5, len(counts) + 0.5], "showgrid": False},
        "yaxis": {"title": {"text": "Samples"}, "rangemode": "tozero", "tickformat": ",d"},
        "bargap": 0.06, "hovermode": "closest",
    }  # fmt: skip
    if mark and edges[0] <= 1 <= edges[-1]:
        layout |= _mark(float(np.interp(1, edges, range(len(edges)))), f"{mark} = 1")
    bars = {
        "type": "bar", "name": title, "x": [i + 0.5 for i in range(len(counts))], "y": counts, "text": spans,
        "textposition": "none", "marker": {"color": "@c1"},
        "hovertemplate": "%{text}<br>%{y:,d} samples<extra></extra>",
    }  # fmt: skip
    rows = [[span, number] for span, number in zip(spans, counts, strict=True)]
    data = table(f"{title}: samples in each range", [Column("Range"), Column("Samples", count)], rows)
    return Plot(name, title, sentence, {"": View([bars], layout)}, data, note)


def _mark(place: float, words: str) -> dict[str, Any]:
    """An upright line with words on top."""
    line = {"type": "line", "xref": "x", "yref": "paper", "x0": place, "x1": place, "y0": 0, "y1": 1,
            "line": {"color": "@muted", "width": 1.5, "dash": "dot"}}  # fmt: skip
    label = {"xref": "x", "yref": "paper", "x": place, "y": 1, "yanchor": "bottom", "showarrow": False, "text": words,
             "font": {"size": 12, "color": "@muted"}}  # fmt: skip
    return {"shapes": [line], "annotations": [label]}


def _card(bag: dict[str, Any]) -> str:
    """A bag with its elements as rows of a table, the bar drawn between the smallest and the largest share."""
    shares = [value for item in bag["top"] for value in (item["effective"], item["weight"])]
    low, high = min(0.0, *shares), max(0.0, *shares)
    rows = "".join(_element(item, low, (high - low) or 1.0) for item in bag["top"])
    facts = [("predicted", _value(bag["prediction"])), ("true", _value(bag["target"]))]
    facts += [(name, figure(bag[name], 3)) for name in ("gamma", "temperature") if bag.get(name) is not None]
    line = " ".join(f"<span>{name} <b>{text(value)}</b></span>" for name, value in facts)
    size = f"{len(bag['top'])} of {plural(bag['elements'], 'element')}"
    return (
        f"<article class=bag><h3><span>Sample</span> {text(bag['id'])}</h3><p class=facts>{line}</p>"
        f"<table><caption>{size}</caption>"
        "<colgroup><col class=label><col><col class=share></colgroup><thead><tr><th scope=col>Element</th><td></td>"
        f"<th scope=col class=number>Effective</th></tr></thead><tbody>{rows}</tbody></table></article>"
    )


def _element(item: dict[str, Any], low: float, span: float) -> str:
    effective, weight, label = item["effective"], item["weight"], text(item["label"])
    places = {"zero": -low / span, "width": abs(effective) / span, "tick": (weight - low) / span}
    style = ";".join(f"--{name}:{place:.4f}" for name, place in places.items())
    kind = "less" if effective < 0 else "more"
    return (
        f'<tr><th scope=row title="{label}">{label}</th>'
        f'<td class=bar aria-hidden=true><span class={kind} style="{style}"></span></td>'
        f"<td class=number>{share(effective)}<span class=hidden>, attention {share(weight)}</span></td></tr>"
    )


def share(value: float) -> str:
    """A share in per cent, with the digits that it needs.

    >>> share(0.1234), share(-0.00512), share(0)
    ('12.3 %', '−0.51 %', '0.0 %')
    """
    size = abs(100 * value)
    digits = 1 if size >= 1 or size == 0 else 2 if size >= 0.1 else 3
    shown = f"{size:.{digits}f}"
    return ("−" if value < 0 and float(shown) else "") + shown + " %"


def _value(value: Any) -> str:
    """A prediction or a target: a number, or several."""
    if isinstance(value, list):
        return ", ".join(map(_value, value[:3])) + (", …" if len(value) > 3 else "")
    if isinstance(value, dict):
        return _value(list(value.values()))
    return figure(value) if isinstance(value, int | float) else "–" if value is None else str(value)
