"""The page: the sections of a record in order, set by templates, style and script inlined, one file."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import excora
from excora.errors import InputError, MissingExtraError
from excora.report.plots import Plot
from excora.report.records import FILES, ComparisonRecord, ExplanationRecord, Record, RunRecord
from excora.report.sections import SECTIONS, Maker, Missing, Section
from excora.report.tables import LONGEST
from excora.storage import write_atomically

try:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup, escape
except ModuleNotFoundError as missing:
    raise MissingExtraError(str(missing.name), "app") from missing

REST = Maker("left-out", "What is not here, and why", 900, (), lambda _: None)
# A page that may reach nothing cannot leak a user's data, whatever gets into it.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
STATES = {"training": "This run has not ended yet.", "interrupted": "This run was interrupted before its end."}
VALIDATED = " What is shown is the validation part: the test part is looked at when it has ended."


def write_report(folder: str | Path) -> Path:
    """Write ``report.html`` into a run folder, a comparison folder or a folder that is both; the path of the page.

    Read are only the files of the folder: config.json, metrics.csv, monitor.json, predictions.csv, results.json,
    attention.json, tissue.json and comparison.json, those that are there. The page needs no network; equal files give
    an equal page.

    >>> write_report("runs/first")  # doctest: +SKIP
    PosixPath('runs/first/report.html')

    A section without data is left out, and the page says which and why. A folder without any result, or a file that
    is cut off or lacks what it should have, is an InputError that names it; nothing is written then.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give a run folder of `excora fit` or `excora compare`")
    there = {name for name in (*FILES, "comparison.json") if (folder / name).exists()}
    if there <= {"config.json", "attention.json", "tissue.json"}:
        raise InputError(
            f"{folder}: there is nothing to report here: expected results.json (a run of `excora fit`) or "
            f"comparison.json (of `excora compare`)"
        )
    if there == {"comparison.json"}:
        return write_page(folder / "report.html", page_of_comparison(ComparisonRecord.load(folder)))
    return write_page(folder / "report.html", page_of_run(RunRecord.load(folder)))


def write_page(path: str | Path, page: str) -> Path:
    """Write all of a page or nothing; its path."""
    path = Path(path)
    # A lone surrogate in a user's string has no UTF-8: it becomes a question mark.
    write_atomically(path, page.encode("utf-8", "replace"))
    return path


def page_of_run(record: RunRecord) -> str:
    """The page of a run, and of the comparison beside it if it has one.

    >>> page_of_run(RunRecord())[:15]
    '<!doctype html>'
    """
    state = "finished" if record.config is None else record.config.state
    words = "" if state == "finished" else STATES.get(state, f"This run is in the state “{state}”.")
    return _render(record, words + (VALIDATED if words and record.results and not record.results.test else ""))


def page_of_comparison(record: ComparisonRecord) -> str:
    """The page of a comparison."""
    return _render(record)


def page_of_explanation(record: ExplanationRecord) -> str:
    """The page of what predictions hang on."""
    return _render(record)


class Part(NamedTuple):
    """A section that is set."""

    place: float
    name: str
    title: str
    look: str
    body: Markup
    plots: Sequence[Plot]


def _render(record: Record | ExplanationRecord, state: str = "") -> str:
    sections = _sections(record)
    plots = [plot.data() for part in sections for plot in part.plots]
    page = _templates().get_template("page.html").render(
        policy=POLICY, version=excora.__version__, title=record.title, line=record.line, state=state,
        sections=sections, plots=plots, style=Markup(_file("page.css")), script=Markup(_file("page.js")),
        plotly=Markup(_plotly() if plots else ""),
    )  # fmt: skip
    return page.lstrip()


def _sections(record: Record | ExplanationRecord) -> list[Part]:
    """From top to bottom; what is left out is said in its place."""
    found, left_out = [], []
    for maker in (SECTIONS[name] for name in SECTIONS):
        made = maker.make(record) if isinstance(record, maker.reads) else None
        if isinstance(made, Missing):
            left_out.append((maker.place, maker.title, made.reason))
        elif made is not None:
            found += _parts(maker, [made] if isinstance(made, Section) else made)
    if left_out:
        reasons = [(title, reason) for _, title, reason in sorted(left_out)]
        found += _parts(REST, [Section(template="left-out.html", values={"left_out": reasons})])
    return sorted(found, key=lambda part: part.place)


def _parts(maker: Maker, made: list[Section]) -> list[Part]:
    parts = []
    for number, one in enumerate(made, 1):
        template = _templates().get_template(one.template)
        # Its output is markup, and whatever was not is escaped in it.
        body = Markup(template.render(lead=one.lead, plots=one.plots, tables=one.tables, **one.values))
        name = maker.name if number == 1 else f"{maker.name}-{number}"
        parts.append(Part(maker.place, name, one.title or maker.title, one.look, body, one.plots))
    return parts


@functools.cache
def _templates() -> Environment:
    """Where the templates are; autoescape is what keeps a user's words words."""
    found = Environment(
        loader=FunctionLoader(_template), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    found.filters["prose"] = prose
    found.globals["longest"] = LONGEST
    return found


def _template(name: str) -> str:
    package, _, file = name.rpartition(":")
    return files(package).joinpath(file).read_text("utf-8") if package else _file(f"templates/{name}")


def prose(text: str) -> Markup:
    """Escaped, with `code` set as code.

    >>> prose("try `a < b`")
    Markup('try <code>a &lt; b</code>')
    """
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _file(name: str) -> str:
    return files("excora.report").joinpath(name).read_text("utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    return get_plotlyjs()
