"""From values to markup: escaping, numbers as people read them, tables, plots and sections.

Whatever a user named (a column, a group, a bag, a file) passes through :func:`text`, :func:`plot_text` or
:func:`script_json` on its way to the page, each for its own place.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

LONGEST = 1000  # rows of a table on the page
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def text(value: object) -> str:
    """For HTML, between tags or in a quoted attribute.

    >>> text("<b>&\\"")
    '&lt;b&gt;&amp;&quot;'
    """
    return html.escape(str(value), quote=True)


def prose(value: object) -> str:
    """For HTML, with `code` set as code.

    >>> prose("try `a < b`")
    'try <code>a &lt; b</code>'
    """
    return re.sub("`([^`]*)`", r"<code>\1</code>", text(value))


def plot_text(value: object, longest: int = 40) -> str:
    """For plotly, which reads tags and entities in every label; cut to ``longest`` characters.

    >>> plot_text("<a href='x'>"), plot_text("abcdef", 4)
    ("&lt;a href='x'&gt;", 'abc…')
    """
    shown = str(value)
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return html.escape(shown, quote=False)


def script_json(value: object) -> str:
    """JSON that no HTML parser leaves a script element for: only ASCII, without <, > and &.

    >>> script_json({"a": "</script>\\u2028"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u2028"}'
    """
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def short(value: float) -> float:
    """Six digits, enough for any screen."""
    return float(f"{value:.6g}")


def figure(value: float | None, digits: int = 4) -> str:
    """A number with that many significant digits; a dash for an undefined one.

    >>> figure(1234.5678), figure(-0.012345678), figure(1.5e-9), figure(0), figure(None)
    ('1,235', '−0.01235', '1.500 × 10⁻⁹', '0', '–')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    mantissa, _, power = f"{abs(value):.{digits - 1}e}".partition("e")  # rounded first: 9.9996 has one digit more
    sign, exponent = ("−" if value < 0 else ""), int(power)
    if not -5 <= exponent < 7:
        return f"{sign}{mantissa} × 10{str(exponent).translate(_SUPERSCRIPT)}"
    return f"{sign}{abs(value):,.{max(digits - 1 - exponent, 0)}f}"


def correlation(value: float | None) -> str:
    """Three decimals; a dash for an undefined one.

    >>> correlation(0.81249), correlation(-0.0001), correlation(None)
    ('0.812', '0.000', '–')
    """
    if value is None:
        return "–"
    rounded = f"{abs(value):.3f}"
    return ("−" if value < 0 and float(rounded) else "") + rounded


def signed(value: float | None) -> str:
    """A difference of correlations: with its sign.

    >>> signed(0.02), signed(-0.02), signed(0.0001)
    ('+0.020', '−0.020', '0.000')
    """
    shown = correlation(value)
    return f"+{shown}" if value is not None and value > 0 and float(shown) else shown


def count(value: float | None) -> str:
    """A whole number, thousands apart."""
    return "–" if value is None else f"{round(value):,}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(0.42), duration(75), duration(7300)
    ('0.4 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def plural(number: int, word: str) -> str:
    """``3 bags``, ``1 bag``."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


class Column(NamedTuple):
    """A column: its head, and how its numbers are shown; None for text."""

    title: str
    show: Callable[[float | None], str] | None = None


class Shown(NamedTuple):
    """A cell that is sorted by a number and reads as something else."""

    value: float | None
    words: str


Cell = str | float | Shown | None


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, sortable: bool = False) -> str:
    """An HTML table in a box that scrolls by itself; a cell of text is escaped, a number sorts as a number."""
    heads = "".join(_head(column, sortable) for column in columns)
    body = "".join("<tr>" + "".join(map(_cell, columns, row, range(len(columns)))) + "</tr>" for row in rows[:LONGEST])
    more = f"<p class=note>The first {LONGEST:,} of {len(rows):,} rows.</p>" if len(rows) > LONGEST else ""
    kind, size = (" class=sortable" if sortable else ""), (" tall" if len(rows) > 15 else "")
    return (
        f'<div class="scroll{size}" role=region tabindex=0 aria-label="{text(caption)}"><table{kind}>'
        f"<caption>{text(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _head(column: Column, sortable: bool) -> str:
    kind = "" if column.show is None else " class=number"
    if not sortable:
        return f"<th scope=col{kind}>{text(column.title)}</th>"
    return f"<th scope=col aria-sort=none{kind}><button type=button>{text(column.title)}</button></th>"


def _cell(column: Column, cell: Cell, index: int) -> str:
    if isinstance(cell, str):
        tag = "th scope=row" if index == 0 else "td"
        kind = " class=short" if len(cell) <= 28 else ""
        return f"<{tag}{kind}>{text(cell)}</{tag[:2]}>"
    value, words = cell if isinstance(cell, Shown) else (cell, (column.show or figure)(cell))
    return f'<td class=number data-value="{"" if value is None else repr(float(value))}">{text(words)}</td>'


class View(NamedTuple):
    """What plotly draws; a colour is "@name", a variable of page.css."""

    traces: list[dict[str, Any]]
    layout: dict[str, Any]


@dataclass(frozen=True)
class Plot:
    """A plot, what it shows in one sentence, and the figures in it as a table.

    More than one of ``views``, by label, make a menu called ``menu`` that switches between them.
    """

    name: str
    title: str
    sentence: str
    views: dict[str, View]
    table: str
    note: str = ""
    menu: str = ""
    shape: str = ""  #: "square" for one that needs the height

    def markup(self) -> str:
        """The figure; page.js draws into its box."""
        choices = "".join(f"<option value={n}>{text(label)}</option>" for n, label in enumerate(self.views))
        menu = f"<label class=menu>{text(self.menu)} <select>{choices}</select></label>" if len(self.views) > 1 else ""
        note = f"<p class=note>{text(self.note)}</p>" if self.note else ""
        return (
            f'<figure id="{self.name}" class="figure {self.shape}" aria-labelledby="{self.name}-title">'
            f'<h3 id="{self.name}-title">{text(self.title)}</h3>{menu}'
            '<div class=legend role=group aria-label="Show or hide"></div>'
            f'<div class=plot role=img aria-label="Plot: {text(self.title)}" aria-describedby="{self.name}-words">'
            "</div>"
            f'<figcaption><p id="{self.name}-words">{text(self.sentence)}</p>{note}'
            f"{fold('These figures as a table', self.table)}</figcaption>"
            "</figure>"
        )

    def data(self) -> dict[str, Any]:
        """What page.js needs to draw it."""
        return {"name": self.name, "views": [view._asdict() for view in self.views.values()]}


@dataclass(frozen=True)
class Section:
    """A section of the page; ``title`` also stands in the contents."""

    name: str
    title: str
    body: str
    plots: tuple[Plot, ...] = ()


class Missing(NamedTuple):
    """A section that is left out, and why."""

    title: str
    reason: str


def fold(summary: str, body: str) -> str:
    """Markup behind a line that opens it."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>"
