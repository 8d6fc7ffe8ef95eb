"""Expression on the tissue: measured and predicted side by side, for some genes and every slide that is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.report.numerals import correlation, count, figure, plural
from excora.report.parts import Predictions
from excora.report.plots import Plot, View, plot_text, short
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.slides import Slide, Tissue
from excora.report.tables import Cell, Column, Table
from excora.stats.correlation import pearson

Index = NDArray[np.intp]
#: Genes and slides in the menu, at most.
GENES, SLIDES = 6, 4


@section("tissue", "On the tissue", place=50)
def tissue(record: RunRecord) -> Made:
    """Nothing to say where samples are no spots."""
    found, under = record.predictions, record.tissue
    if found is None or under is None:
        return None
    rows = places(found, under)
    slides = [k for k in range(len(under.slides)) if k in rows][:SLIDES]
    names = _chosen(found, np.concatenate([rows[k] for k in slides])) if slides else []
    if not names:
        return None
    views, cells = {}, []
    for name in names:
        for k in slides:
            mine = rows[k][found.drawable(name)[rows[k]]]
            if len(mine):
                label = name if len(slides) == 1 else f"{name} · {under.slides[k].name}"
                views[label] = _view(found, name, mine, under, k)
                cells.append(_row(found, name, mine, under.slides[k]))
    sentence = (
        "Each point is a spot where it lies on the slide, coloured by a gene's expression: measured on the left, "
        "predicted on the right."
    )
    note = (
        f"{plural(len(names), 'gene')} of {len(found.target):,}, from the one predicted best to the worst. Both sides "
        "have a colour scale of their own: predictions vary less than measurements, the more so the less is known."
    )
    columns = [
        Column("Gene"), Column("Slide"), Column("Spots", count), Column("PCC", correlation),
        Column("Spread measured", figure), Column("Spread predicted", figure),
    ]  # fmt: skip
    table = Table("The genes that are drawn, slide by slide", columns, cells)
    return Section(plots=[Plot("tissue-map", "Measured and predicted", sentence, views, table, note, "Gene", "tall")])


def places(found: Predictions, under: Tissue) -> dict[int, Index]:
    """By number of a slide, the rows of the predictions that lie on it, in the order of the spots."""
    row = {(name, part): k for k, (name, part) in enumerate(zip(found.ids, found.part, strict=True))}
    part = "test" if "test" in found.part else "validation"
    mine: dict[int, list[int]] = {}
    for name, slide in zip(under.ids, under.slide, strict=False):
        if (name, part) in row and 0 <= slide < len(under.slides):
            mine.setdefault(slide, []).append(row[name, part])
    return {slide: np.array(rows, np.intp) for slide, rows in mine.items()}


def _chosen(found: Predictions, rows: Index) -> list[str]:
    """From the highest correlation to the lowest, evenly; those that have one."""
    names = [name for name in found.target if found.drawable(name)[rows].sum() > 1]
    known = {name: float(pearson(found.prediction[name][rows], found.target[name][rows])[0]) for name in names}
    ranked = sorted((name for name in names if np.isfinite(known[name])), key=lambda name: -known[name])
    if len(ranked) <= GENES:
        return ranked or names[:GENES]
    return [ranked[round(k)] for k in np.linspace(0, len(ranked) - 1, GENES)]


def _view(found: Predictions, name: str, rows: Index, under: Tissue, slide: int) -> View:
    place = {spot: k for k, spot in enumerate(under.ids)}
    where = [place[found.ids[row]] for row in rows]
    x, y = [under.x[k] for k in where], [under.y[k] for k in where]
    here, sides = under.slides[slide], (("Measured", found.target), ("Predicted", found.prediction))
    limits = _limits(x, y, here)
    size = _size(limits, here.pitch)
    layout: dict[str, Any] = {"hovermode": "closest", "margin": {"b": 44}, "annotations": [], "images": []}
    traces = []
    for number, (side, values) in enumerate(sides):
        axes, domain = "2" if number else "", [0.52, 1.0] if number else [0.0, 0.48]
        plain = {"showgrid": False, "showticklabels": False, "ticks": "", "constrain": "domain"}
        layout[f"xaxis{axes}"] = {**plain, "domain": domain, "range": limits[0], "anchor": f"y{axes}", "title": {}}
        layout[f"yaxis{axes}"] = {**plain, "range": limits[1][::-1], "anchor": f"x{axes}", "title": {}}
        layout[f"yaxis{axes}"]["scaleanchor"] = f"x{axes}"
        middle = sum(domain) / 2
        title = {"xref": "paper", "yref": "paper", "x": middle, "y": 1.0, "yanchor": "bottom"}
        layout["annotations"].append({**title, "xanchor": "center", "showarrow": False, "text": side})
        layout["images"] += here.under.image(axes)
        bar = {"orientation": "h", "x": middle, "len": 0.34, "y": -0.02, "yanchor": "top", "thickness": 9,
               "outlinewidth": 0, "nticks": 4}  # fmt: skip
        traces.append({
            "type": "scatter", "mode": "markers", "name": side, "x": x, "y": y, "xaxis": f"x{axes}",
            "yaxis": f"y{axes}", "text": [plot_text(found.ids[row]) for row in rows],
            "marker": {"color": [short(v) for v in values[name][rows]], "colorscale": "Viridis", "size": size,
                       "opacity": 0.9, "colorbar": bar, "showscale": True},
            "hovertemplate": f"%{{text}}<br>{side.lower()} %{{marker.color:.3g}}<extra></extra>",
        })  # fmt: skip
    return View(traces, layout)


def _limits(x: list[float], y: list[float], slide: Slide) -> list[list[float]]:
    """Of both axes: the spots with a margin of two pitches."""
    return [[short(min(v) - 2 * slide.pitch), short(max(v) + 2 * slide.pitch)] for v in (x, y)]


def _size(limits: list[list[float]], pitch: float) -> float:
    """Points that nearly touch where a side is about 400 pixels wide."""
    span = max(high - low for low, high in limits)
    return round(min(max(0.85 * 400 * pitch / span, 3.0), 24.0), 1)


def _row(found: Predictions, name: str, rows: Index, slide: Slide) -> list[Cell]:
    y, guess = found.target[name][rows], found.prediction[name][rows]
    rho = float(pearson(guess, y)[0])
    return [name, slide.name, len(rows), None if np.isnan(rho) else rho, float(y.std()), float(guess.std())]
