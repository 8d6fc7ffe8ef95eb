"""The tour that ``excora --help`` begins with, and the console that all commands share."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

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
    app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, help=TOUR)
    app.callback()(_program)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        import excora

        typer.echo(f"excora {excora.__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """What stands before the commands; the tour is its help."""


def show(*found: Any, quiet: bool = False) -> None:
    """Print results, unless ``quiet``; where nobody looks at a terminal, lines stay whole however long they are."""
    if not quiet:
        console.print(*found, soft_wrap=not console.is_terminal)


def as_options(message: str) -> str:
    """An error in the words of the command line: what Python calls ``target=`` is ``--target`` here.

    >>> as_options("name the column to predict with target=")
    'name the column to predict with --target'
    """
    return re.sub(r"(?<![\w-])([a-z_]+)=(?![\w\"'(\[{=])", lambda m: "--" + m[1].replace("_", "-"), message)


def echo_json(content: Any) -> None:
    """For machines: one JSON document on standard output."""
    typer.echo(json.dumps(content, indent=1))
