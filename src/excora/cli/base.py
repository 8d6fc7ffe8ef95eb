"""The tour that ``excora --help`` begins with, and the console that all commands share."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console

TOUR = """Excora, extrapolative correlation attention: why has your correlation stopped rising, and how to go on.

A tour:

  excora demo                                   see it work, in a minute

  excora fit data.csv --target y --output run   train, test once, report

  excora predict run new.csv --output out.csv   use it on new data

  excora compare data.csv --target y            is it better, or is it noise?

  excora diagnose run                           why has PCC stopped rising?
"""
console = Console()


def new_app() -> typer.Typer:
    """Without commands."""
    return typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help=TOUR,
    )


def show(*found: Any) -> None:
    """Print results; where nobody looks at a terminal, lines stay whole however long they are."""
    console.print(*found, soft_wrap=not console.is_terminal)


def echo_json(content: Any) -> None:
    """For machines: one JSON document on standard output."""
    typer.echo(json.dumps(content, indent=1))
