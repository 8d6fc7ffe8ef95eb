"""Runs a study: chunk by chunk with progress and time left, then the table, the figures and the files.

A study module has three functions:

- ``configure(*, seeds, preset, data)``: everything that the numbers depend on, as a dict that JSON can hold;
- ``chunks(configuration, data)``: a list of :class:`Chunk`, in order;
- ``report(configuration, results)``: a :class:`Report` from the chunks' results, by key.

and ``BLOCKS`` for :mod:`excora_studies.pages`. A long one also has ``table_of(key)``, the name of the file that keeps a
chunk once all are there: some of its chunks can be computed alone, and the report is of those that are there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from excora.errors import InputError
from excora.storage import write_atomically
from excora.threads import one_thread
from excora_studies.figures import Figure, html, png
from excora_studies.store import Store, csv_text

Tick = Callable[[], None]
Results = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A part that is saved as a whole: ``compute(results so far, tick)``, with ``ticks`` calls of tick."""

    key: str
    ticks: int
    compute: Callable[[Results, Tick], Any]


@dataclasses.dataclass
class Report:
    """What a study shows: rows of the table (equal keys), a summary, figures by file name, and notes under the table.

    ``columns`` names the columns that are printed, each with its spread where there is a column "... sd"; the CSV has
    all.
    """

    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    figures: dict[str, Figure]
    notes: list[str]
    columns: Sequence[str] = ()


class Study(Protocol):
    """A study module."""

    def configure(self, *, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:
        """Everything that the numbers depend on."""

    def chunks(self, configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
        """The parts, in order."""

    def report(self, configuration: dict[str, Any], results: Results) -> Report:
        """What the parts show."""


def run(
    name: str,
    study: Study,
    output: Path,
    *,
    seeds: int | None,
    preset: str,
    data: Path | None,
    only: Sequence[str] = (),
    console: Any,
) -> dict[str, Any]:
    """Compute what is missing, then write results.json, table.csv, figures and print the table."""
    configuration = study.configure(seeds=seeds, preset=preset, data=data)
    whole, table_of = study.chunks(configuration, data), getattr(study, "table_of", None)
    chunks = _chosen(whole, only, apart=table_of is not None)
    store = Store(output, name, configuration, keys=[chunk.key for chunk in whole], table_of=table_of)
    with one_thread(), _progress(console, sum(chunk.ticks for chunk in chunks)) as advance:
        for chunk in chunks:
            compute = functools.partial(chunk.compute, store.results, functools.partial(advance, 1))
            try:
                found = store.chunk(chunk.key, compute)
            except KeyboardInterrupt:
                if console is not None:
                    console.print(f"stopped; what is done is in {output}: the same command goes on from there")
                raise
            if found:
                advance(chunk.ticks)
    store.look()
    report = study.report(configuration, store.results)
    content = store.finish(report.rows, report.summary)
    write_atomically(output / "table.csv", csv_text(report.rows))
    for file, figure in report.figures.items():
        write_atomically(output / f"{file}.png", png(figure))
    write_atomically(output / "figures.html", html(f"excora reproduce {name}", list(report.figures.values())))
    if console is not None:
        _print(console, name, report, output)
    return content


def _chosen(chunks: list[Chunk], only: Sequence[str], *, apart: bool) -> list[Chunk]:
    """The chunks whose key contains one of ``only``, where they can be computed ``apart``."""
    if not only:
        return chunks
    if not apart:
        raise InputError(f"this study is computed as a whole, got --only {' '.join(only)}")
    chosen = [chunk for chunk in chunks if any(one in chunk.key for one in only)]
    if not chosen:
        raise InputError(f"no part of this study is named {' or '.join(only)}; one is {chunks[-1].key!r}")
    return chosen


@contextlib.contextmanager
def _progress(console: Any, total: int) -> Iterator[Callable[[int], None]]:
    if console is None:
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    # Estimated over many ticks: chunks differ in speed.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=60.0) as progress:
        task = progress.add_task("", total=total)
        yield lambda steps: progress.advance(task, steps)


def _print(console: Any, name: str, report: Report, output: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    columns = [c for c in report.columns or report.rows[0] if not c.endswith(" sd")]
    table = Table(title=f"excora reproduce {name}", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        text = isinstance(report.rows[0][column], str)
        table.add_column(column, justify="left" if text else "right", no_wrap=True)
    for row in report.rows:
        cells = [(cell(row[column]), cell(row.get(f"{column} sd"))) for column in columns]
        table.add_row(*(f"{value} ± {spread}" if value and spread else value for value, spread in cells))
    # In full, even where that is wider than the console: a number cut short says nothing.
    width = Console(width=1000).measure(table).maximum
    Console(file=console.file, width=max(console.width, width)).print(table)
    for note in report.notes:
        console.print(note, highlight=False)
    console.print(f"written to {output}: results.json, table.csv, {', '.join(report.figures)} (PNG), figures.html")


def cell(value: Any) -> str:
    """A table cell: floats with five digits at most, nothing for None."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if 0.0 < abs(value) < 1e-4:
        return f"{value:.0e}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.1f}"
