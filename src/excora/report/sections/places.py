"""Attention in place: a picture of each shown sample whose elements have coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from excora.report.numerals import count, figure, plural
from excora.report.parts import Places, Sample
from excora.report.plots import Plot, View, plot_text
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.sections.elements import share
from excora.report.tables import Cell, Column, Table

LISTED = 5  # heaviest elements of each picture in the table


@section("places", "Attention in place", place=650)
def places(record: RunRecord) -> Made:
    """A picture for each pool; nothing to say where elements have no place."""
    pools = {name: [bag for bag in found.bags if _drawable(bag)] for name, found in record.attention.items()}
    pools = {name: bags for name, bags in pools.items() if bags}
    if not pools:
        return None
    plots = [
        _plot(name if len(pools) > 1 else "", bags, number) for number, (name, bags) in enumerate(pools.items(), 1)
    ]
    return Section(plots=plots)


def _drawable(bag: Sample) -> bool:
    found = bag.places
    return found is not None and len(found.x) == len(found.y) == len(found.effective) > 0


def _plot(pool: str, bags: list[Sample], number: int) -> Plot:
    views = {_label(number, bag, bags): _view(bag) for number, bag in enumerate(bags, 1)}
    sentence = (
        "Each point is an element of the sample where it lies, such as a patch of a slide: the stronger its colour, "
        "the larger its effective share of the prediction."
    )
    cut = any(bag.places is not None and len(bag.places.x) < bag.elements for bag in bags)
    note = "Of samples with very many elements the heaviest are drawn, and an even choice of the others." if cut else ""
    end = f"-{number}" if number > 1 else ""
    title = f"Where the attention lies{f': {pool}' if pool else ''}"
    return Plot(f"places{end}", title, sentence, views, _table(bags), note, "Sample", "square")


def _label(number: int, bag: Sample, bags: list[Sample]) -> str:
    """Its id; with a number where two are called alike."""
    alike = [other for other in bags if str(other.id) == str(bag.id)]
    return str(bag.id) if len(alike) == 1 else f"{bag.id} ({number})"


def _view(bag: Sample) -> View:
    assert bag.places is not None
    most = max(map(abs, bag.places.effective)) or 1.0
    signs = {"toward the element": (1, "@c1", "circle"), "away from it": (-1, "@c2", "square")}
    traces = [_points(bag.places, most, name, *look) for name, look in signs.items()]
    images = [] if bag.places.under is None else bag.places.under.image()
    plain = {"showgrid": not images}  # lines would lie on the picture
    layout = {
        "xaxis": {"title": {"text": "x"}, "constrain": "domain", **plain},
        "yaxis": {"title": {"text": "y"}, "autorange": "reversed", "scaleanchor": "x", **plain},  # as in an image
        "hovermode": "closest",
        "images": images,
    }
    return View([trace for trace in traces if trace["x"]], layout)


def _points(found: Places, most: float, name: str, sign: int, color: str, symbol: str) -> dict[str, Any]:
    kept = [k for k, value in enumerate(found.effective) if (value < 0) == (sign < 0)]
    strength = [round(0.08 + 0.92 * abs(found.effective[k]) / most, 3) for k in kept]
    size = round(min(max(260 / math.sqrt(len(found.x)), 4), 16), 1)
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [found.x[k] for k in kept],
        "y": [found.y[k] for k in kept], "text": [plot_text(share(found.effective[k])) for k in kept],
        "marker": {"color": color, "size": size, "symbol": symbol, "opacity": strength},
        "hovertemplate": "%{text}<br>x %{x}, y %{y}<extra></extra>",
    }  # fmt: skip


def _table(bags: list[Sample]) -> Table:
    rows: list[list[Cell]] = []
    for bag in bags:
        found = bag.places
        assert found is not None
        order = np.argsort(-np.abs(found.effective), kind="stable")[:LISTED].tolist()
        rows += [[str(bag.id), bag.elements, found.x[k], found.y[k], share(found.effective[k])] for k in order]
    columns = [
        Column("Sample"),
        Column("Elements", count),
        Column("x", figure),
        Column("y", figure),
        Column("Effective"),
    ]
    return Table(f"The heaviest elements of {plural(len(bags), 'sample')}, with their places", columns, rows)
