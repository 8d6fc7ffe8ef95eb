"""Tables: what they hold, and how a cell reads and sorts; macros.html sets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from excora.report.numerals import correlation, figure

LONGEST = 1000  # rows on the page


class Column(NamedTuple):
    """A column: its head, and how its numbers are shown; None for text."""

    title: str
    show: Callable[[float | None], str] | None = None


class Shown(NamedTuple):
    """A cell that is sorted by a number and reads as something else."""

    value: float | None
    words: str


Cell = str | float | Shown | None


@dataclass(frozen=True)
class Table:
    """A table in a box that scrolls by itself."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False

    @property
    def cut(self) -> bool:
        """Whether rows are left out."""
        return len(self.rows) > LONGEST

    def ready(self) -> Iterator[list[tuple[str, str | None]]]:
        """The cells as they are set, and what a number sorts by, "" where undefined; None for text."""
        for row in self.rows[:LONGEST]:
            yield [_ready(column, cell) for column, cell in zip(self.columns, row, strict=True)]


def _ready(column: Column, cell: Cell) -> tuple[str, str | None]:
    if isinstance(cell, str):
        return cell, None
    value, words = cell if isinstance(cell, Shown) else (cell, (column.show or figure)(cell))
    return words, "" if value is None else repr(float(value))


def between(low: float | None, high: float | None) -> Shown:
    """An interval as a cell, sorted by its lower end."""
    if low is None or high is None:
        return Shown(None, "–")
    return Shown(low, f"{correlation(low)} to {correlation(high)}")
