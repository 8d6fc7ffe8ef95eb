"""Tables for people: on a terminal by rich, elsewhere as aligned text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), *, right: Collection[int] = ()) -> Any:
    """A rich table without lines; ``right``: the columns that end in line.

    Cells are text or rich's Text. What is in square brackets, as in names of columns and files, is no markup.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(header))
    for k, name in enumerate(header):
        made.add_column(name, justify="right" if k in right else "left")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def aligned(lines: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Lines of cells as lines of text, in columns two spaces apart.

    >>> aligned([("model", "PCC"), ("ridge", "0.5")], right={1})
    ['model  PCC', 'ridge  0.5']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def cell(text: str, width: int, k: int) -> str:
        return text.rjust(width) if k in right else text.ljust(width)

    return ["  ".join(map(cell, line, widths, range(len(line)))).rstrip() for line in lines]
