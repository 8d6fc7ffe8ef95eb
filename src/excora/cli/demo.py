"""The command ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from excora.cli.base import console, echo_json, show
from excora.cli.options import Json, Quiet


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results and the report.")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions: each has its own data and weights.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training bags.")] = 24,
    bags: Annotated[int, typer.Option(min=20, help="Bags of each setting.")] = 1000,
    files: Annotated[
        Path | None, typer.Option(help="Only write small files of every kind into this folder, to try commands on.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """See it work: softmax against ECA pooling, where extrapolation helps and where it does not, and the report.

    Examples:

      excora demo

      excora demo --files try       then, in try/, any line of the guide
    """
    if files is not None:
        _write(files, quiet=quiet, as_json=as_json)
        return
    from excora.demo import run

    shown = run(output, seeds=seeds, epochs=epochs, bags=bags, console=None if as_json or quiet else console)
    if as_json:
        echo_json({name: comparison.to_dict() for name, comparison in shown.comparisons.items()})


def _write(folder: Path, *, quiet: bool, as_json: bool) -> None:
    from excora.console import table
    from excora.tryout import write

    told = write(folder)
    if as_json:
        echo_json(told)
        return
    show(table(list(told.items()), ("file", "what it is")), quiet=quiet)
    show(f"then, for one: cd {folder} && excora fit table.csv --target price --output run", quiet=quiet)
