"""Tables for people."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from excora.console import aligned, table

ROWS = [("ridge [x]", "0.5"), ("softmax", "-0.25")]


def shown(made) -> list[str]:
    console = Console(width=60, file=io.StringIO())
    console.print(made)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_table_has_no_lines_and_no_markup():
    assert shown(table(ROWS, ("model", "PCC"), right={1})) == [
        "model        PCC", "ridge [x]    0.5", "softmax    -0.25",
    ]  # fmt: skip
    assert shown(table([(Text("a", "bold"), "b")])) == ["a  b"]


def test_aligned_text_is_the_same():
    assert aligned([("model", "PCC"), *ROWS], right={1}) == shown(table(ROWS, ("model", "PCC"), right={1}))
