"""The command ``diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from excora.cli.base import echo_json, show
from excora.cli.options import Json


def diagnose(
    file: Annotated[
        Path, typer.Argument(help="A run folder, a table of predictions (.csv, .tsv, .parquet), or a monitor's JSON.")
    ],
    prediction: Annotated[str, typer.Option(help="Column of the predictions.")] = "prediction",
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "target",
    epoch: Annotated[str | None, typer.Option(help="Column of the epoch; 'epoch' if there is one.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the group; 'group' if there is one.")] = None,
    part: Annotated[
        str | None, typer.Option(help="Only this part of a file with a column 'part'; else each by itself.")
    ] = None,
    noise_ceiling: Annotated[float | None, typer.Option(help="The best PCC that label noise allows, if known.")] = None,
    as_json: Json = False,
) -> None:
    """Say why the correlation has stopped rising: the verdict, its evidence, and what to try next.

    Examples:

      excora diagnose run

      excora diagnose predictions.csv

      excora diagnose run/predictions.csv --part test

      excora diagnose test.parquet --prediction yhat --target y --group slide
    """
    from excora.diagnosis import diagnose_file

    found = diagnose_file(
        file,
        prediction=prediction,
        target=target,
        epoch=epoch,
        group=group,
        part=part,
        noise_ceiling=noise_ceiling,
    )
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found)
