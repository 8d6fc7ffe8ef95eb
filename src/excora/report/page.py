"""The page: sections in order, style and script inlined, one file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import excora
from excora.errors import MissingExtraError
from excora.report import attention, comparison, curves, fit, summary
from excora.report.markup import Missing, Section, plural, script_json, text
from excora.report.reading import Content, read_folder
from excora.storage import write_atomically

SECTIONS = (
    summary.cards, comparison.comparison, curves.curves, curves.parts, curves.gradients, fit.scatter, fit.targets,
    fit.groups, attention.histograms, attention.bags, summary.notes, summary.rerun,
)  # fmt: skip
# A page that may reach nothing cannot leak a user's data, whatever gets into it.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def write_report(folder: str | Path) -> Path:
    """Write ``report.html`` into a run folder, a comparison folder or a folder that is both; the path of the page.

    Read are only the files of the folder: config.json, metrics.csv, monitor.json, predictions.csv, results.json,
    attention.json and comparison.json, those that are there. The page needs no network; equal files give an equal page.

    >>> write_report("runs/first")  # doctest: +SKIP
    PosixPath('runs/first/report.html')

    A section without data is left out, and the page says which and why. A folder without any result, or a file that
    is cut off or lacks what it should have, is an InputError that names it; nothing is written then.
    """
    folder = Path(folder)
    page = render(read_folder(folder))
    path = folder / "report.html"
    # A lone surrogate in a user's string has no UTF-8: it becomes a question mark.
    write_atomically(path, page.encode("utf-8", "replace"))
    return path


class Names(NamedTuple):
    """How the page is called."""

    title: str
    line: str


def render(content: Content) -> str:
    """The page as text."""
    made = [make(content) for make in SECTIONS]
    missing = summary.left_out([part for part in made if isinstance(part, Missing)])
    sections = [part for part in (*made[:-1], missing, made[-1]) if isinstance(part, Section)]
    names = _names(content)
    links = "".join(f'<li><a href="#{part.name}">{text(part.title)}</a></li>' for part in sections)
    body = "".join(
        f'<section id="{part.name}" aria-labelledby="{part.name}-title">'
        f'<h2 id="{part.name}-title">{text(part.title)}</h2>{part.body}</section>'
        for part in sections
    )
    plots = [plot.data() for part in sections for plot in part.plots]
    pieces = {
        "policy": POLICY, "version": text(excora.__version__), "title": text(names.title), "line": text(names.line),
        "state": _state(content), "style": _file("page.css"), "verdict": summary.verdict(content), "links": links,
        "body": body, "plotly": _plotly() if plots else "", "plots": script_json(plots), "script": _file("page.js"),
    }  # fmt: skip
    page = _file("page.html")
    first, *rest = page.split("{{")  # in one pass: a user's string that holds a placeholder stays as it is
    return first + "".join(pieces[name] + after for name, _, after in (part.partition("}}") for part in rest))


def _file(name: str) -> str:
    return files("excora.report").joinpath(name).read_text("utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    return get_plotlyjs()


def _names(content: Content) -> Names:
    targets, data = content.targets, content.data
    what = ", ".join(targets[:3]) + (f" and {len(targets) - 3} more" if len(targets) > 3 else "")
    parts = [] if data is None else [f"from {data}"]
    if content.config is not None:
        chosen = content.config["settings"]
        model = f"the model {chosen['model']} and " if isinstance(chosen.get("model"), str) else ""
        parts.append(f"with {model}the pool {chosen['pool']}")
    elif content.comparison is not None:
        parts.append(f"{plural(len(content.comparison['rows']), 'model')} on the same folds")
    line = ", ".join(parts) or "a run without its config.json"
    return Names(f"Predicting {what}" if what else "Training run", line[:1].upper() + line[1:])


def _state(content: Content) -> str:
    state = "finished" if content.config is None else content.config["state"]
    if state == "finished":
        return ""
    words = {"training": "This run has not ended yet.", "interrupted": "This run was interrupted before its end."}
    said = words.get(state, f"This run is in the state “{state}”.")
    return f"<p class=state role=note>{text(said)} The page shows what there is so far.</p>"
