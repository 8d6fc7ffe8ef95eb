"""Tables of results in Markdown, for the blocks of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: What results.json holds, by study.
Contents = dict[str, dict[str, Any]]


def number(value: float | None, digits: int) -> str:
    """A cell; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def with_spread(row: dict[str, Any], key: str, digits: int) -> str:
    """mean ± standard deviation; of one run, the mean alone."""
    if row[key] is None or row[f"{key} sd"] is None:
        return number(row[key], digits)
    return f"{row[key]:.{digits}f} ± {row[f'{key} sd']:.{digits}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
