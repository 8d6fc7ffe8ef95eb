"""Plots: what plotly draws, with a sentence and a table that say the same; macros.html sets the figure around it.

Whatever a user named passes through :func:`plot_text` on its way into a plot.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, NamedTuple

from excora.report.tables import Table


class View(NamedTuple):
    """What plotly draws; a colour is "@name", a variable of page.css."""

    traces: list[dict[str, Any]]
    layout: dict[str, Any]


@dataclass(frozen=True)
class Plot:
    """A plot, what it shows in one sentence, and the figures in it as a table.

    More than one of ``views``, by label, make a menu called ``menu`` that switches between them.
    """

    name: str  #: no other plot of the page has it
    title: str
    sentence: str
    views: dict[str, View]
    table: Table
    note: str = ""
    menu: str = ""
    shape: str = ""  #: "square" for one that needs the height

    def data(self) -> dict[str, Any]:
        """What page.js needs to draw it."""
        return {"name": self.name, "views": [view._asdict() for view in self.views.values()]}


def plot_text(value: object, longest: int = 40) -> str:
    """For plotly, which reads tags and entities in every label; cut to ``longest`` characters.

    >>> plot_text("<a href='x'>"), plot_text("abcdef", 4)
    ("&lt;a href='x'&gt;", 'abc…')
    """
    shown = str(value)
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return html.escape(shown, quote=False)


def whole(span: float) -> dict[str, int]:
    """For an axis of whole numbers that spans so many: no ticks between them."""
    return {"dtick": 1} if span < 8 else {}


def short(value: float) -> float:
    """Six digits, enough for any screen."""
    return float(f"{value:.6g}")
