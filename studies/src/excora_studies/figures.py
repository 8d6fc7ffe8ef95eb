"""Figures of the studies: one description, drawn as PNG by matplotlib and as interactive HTML by plotly."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

# Okabe and Ito's colours, told apart with any kind of colour vision; black is for references.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C", "#6A3D9A", "#B15928", "#444444")


@dataclasses.dataclass(kw_only=True)
class Line:
    """One curve; ``low`` and ``high`` shade its spread. One label has one colour in all panels of a figure.

    ``joined=False``, for x that are names: points, and bars for the spread.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    dashed: bool = False
    markers: bool = False
    joined: bool = True


@dataclasses.dataclass(kw_only=True)
class Heat:
    """A map z[row][column] over x (columns) and y (rows), white at zero; black rings mark z >= 0.

    Over names instead of numbers it is a table of counts, each written into its cell.
    """

    x: Sequence[float] | Sequence[str]
    y: Sequence[float] | Sequence[str]
    z: Sequence[Sequence[float]]
    limit: float

    @property
    def counts(self) -> bool:
        """Whether the axes are names."""
        return isinstance(self.x[0], str)


@dataclasses.dataclass(kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = ()
    heat: Heat | None = None
    log_x: bool = False
    log_y: bool = False
    level: float | None = None  # a horizontal reference
    ticks: dict[float, str] | None = None


@dataclasses.dataclass(kw_only=True)
class Figure:
    """Panels in rows of ``columns``."""

    title: str
    panels: Sequence[Panel]
    columns: int
    size: tuple[float, float] = (4.2, 3.2)  # of a panel, in inches

    @property
    def rows(self) -> int:
        """Number of rows of panels."""
        return -(-len(self.panels) // self.columns)

    def colours(self) -> dict[str, str]:
        """Colour of each label, by first appearance."""
        labels = dict.fromkeys(line.label.split(" | ")[0] for panel in self.panels for line in panel.lines)
        return {label: PALETTE[i % len(PALETTE)] for i, label in enumerate(labels)}


def png(figure: Figure) -> bytes:
    """The figure as PNG."""
    # The object-oriented interface: pyplot would choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(figure.size[0] * figure.columns, figure.size[1] * figure.rows + 0.6), layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(figure.title)
    axes = canvas.subplots(figure.rows, figure.columns, squeeze=False).flatten()
    handles: dict[str, Any] = {}
    for panel, axis in zip(figure.panels, axes, strict=False):
        _draw(panel, axis, figure.colours(), handles, canvas)
    for axis in axes[len(figure.panels) :]:
        axis.set_axis_off()
    if handles:
        canvas.legend(handles.values(), handles, loc="outside lower center", ncols=min(len(handles), 5), fontsize=8)
    buffer = io.BytesIO()
    # Without the software's version the file is the same for the same numbers.
    canvas.savefig(buffer, format="png", dpi=90, metadata={"Software": None})
    return buffer.getvalue()


def _draw(panel: Panel, axis: Any, colours: dict[str, str], handles: dict[str, Any], canvas: Any) -> None:
    for line in panel.lines:
        colour = colours[line.label.split(" | ")[0]]
        (handle,) = axis.plot(
            line.x,
            [float("nan") if y is None else y for y in line.y],
            color=colour,
            linestyle=("--" if line.dashed else "-") if line.joined else "",
            marker="o" if line.markers or not line.joined else None,
            markersize=3,
            linewidth=1.2,
        )
        handles.setdefault(line.label, handle)
        if line.low is not None and line.high is not None:
            low, high = ([float("nan") if y is None else y for y in side] for side in (line.low, line.high))
            if line.joined:
                axis.fill_between(line.x, low, high, color=colour, alpha=0.2, linewidth=0)
            else:
                axis.vlines(line.x, low, high, color=colour, linewidth=1.2)
    if panel.heat is not None:
        _draw_heat(panel.heat, axis, canvas)
    if panel.level is not None:
        axis.axhline(panel.level, color="black", linestyle=":", linewidth=1.0)
    if panel.ticks is not None:
        names = {"rotation": 60, "ha": "right", "rotation_mode": "anchor", "fontsize": 7}
        axis.set_xticks(list(panel.ticks), list(panel.ticks.values()), **names)
    axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axis.title.set_size(9)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")


def _draw_heat(heat: Heat, axis: Any, canvas: Any) -> None:
    if not heat.counts:
        options: dict[str, Any] = {"cmap": "RdBu", "vmin": -heat.limit, "vmax": heat.limit, "shading": "nearest"}
        image = axis.pcolormesh(heat.x, heat.y, heat.z, **options)
        axis.contour(heat.x, heat.y, heat.z, levels=[0.0], colors="black", linewidths=1.0)
        canvas.colorbar(image, ax=axis)
        return
    axis.imshow(heat.z, cmap="Blues", vmin=0, vmax=heat.limit, aspect="auto")
    axis.set_xticks(range(len(heat.x)), heat.x, rotation=40, ha="right", fontsize=7)
    axis.set_yticks(range(len(heat.y)), heat.y, fontsize=7)
    for i, row in enumerate(heat.z):
        for j, count in enumerate(row):
            if count:
                colour = "white" if count > heat.limit / 2 else "black"
                axis.text(j, i, f"{count:g}", ha="center", va="center", color=colour, fontsize=8)


def html(title: str, figures: Sequence[Figure]) -> str:
    """All figures on one page that works offline: plotly's script is inlined, once."""
    parts = [
        _plotly(figure).to_html(full_html=False, include_plotlyjs=index == 0) for index, figure in enumerate(figures)
    ]
    head = f'<meta charset="utf-8"><title>{title}</title>'
    return f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _plotly(figure: Figure) -> Any:
    from plotly.subplots import make_subplots

    titles = [panel.title for panel in figure.panels]
    page = make_subplots(rows=figure.rows, cols=figure.columns, subplot_titles=titles)
    seen: set[str] = set()
    for index, panel in enumerate(figure.panels):
        place = {"row": index // figure.columns + 1, "col": index % figure.columns + 1}
        for trace in _traces(panel, figure.colours(), seen):
            page.add_trace(trace, **place)
        if panel.level is not None:
            page.add_hline(y=panel.level, line_dash="dot", line_width=1, **place)
        names = panel.heat is not None and panel.heat.counts
        page.update_xaxes(title_text=panel.x, type="category" if names else "log" if panel.log_x else "linear", **place)
        page.update_yaxes(title_text=panel.y, type="category" if names else "log" if panel.log_y else "linear", **place)
        if panel.ticks is not None:
            page.update_xaxes(tickvals=list(panel.ticks), ticktext=list(panel.ticks.values()), **place)
    page.update_layout(title=figure.title, height=340 * figure.rows + 120, template="plotly_white")
    return page


def _traces(panel: Panel, colours: dict[str, str], seen: set[str]) -> list[Any]:
    from plotly import graph_objects

    traces: list[Any] = []
    if panel.heat is not None:
        heat = panel.heat
        options: dict[str, Any] = {"colorscale": "RdBu", "zmin": -heat.limit, "zmax": heat.limit, "showscale": False}
        if heat.counts:
            options |= {"colorscale": "Blues", "zmin": 0, "texttemplate": "%{z}"}
        traces.append(graph_objects.Heatmap(x=list(heat.x), y=list(heat.y), z=[list(row) for row in heat.z], **options))
    for line in panel.lines:
        colour = colours[line.label.split(" | ")[0]]
        common: dict[str, Any] = {"x": list(line.x), "legendgroup": line.label, "hoverinfo": "skip"}
        bars: dict[str, Any] = {}
        if line.low is not None and line.high is not None and not line.joined:
            above, below = (
                [None if a is None or b is None else abs(a - b) for a, b in zip(side, line.y, strict=True)]
                for side in (line.high, line.low)
            )
            bars = {"error_y": {"type": "data", "symmetric": False, "array": above, "arrayminus": below}}
        elif line.low is not None and line.high is not None:
            edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False}
            traces.append(graph_objects.Scatter(y=list(line.low), **edge, **common))
            fill = {"fill": "tonexty", "fillcolor": f"rgba{(*_rgb(colour), 0.2)}"}
            traces.append(graph_objects.Scatter(y=list(line.high), **edge, **fill, **common))
        style = {"color": colour, "dash": "dash" if line.dashed else "solid"}
        mode = ("lines+markers" if line.markers else "lines") if line.joined else "markers"
        common |= {"name": line.label, "hoverinfo": "x+y+name", "showlegend": line.label not in seen}
        traces.append(graph_objects.Scatter(y=list(line.y), mode=mode, line=style, **bars, **common))
        seen.add(line.label)
    return traces


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
