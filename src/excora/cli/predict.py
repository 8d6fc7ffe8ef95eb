"""The command ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from excora.cli.base import echo_json, show
from excora.cli.options import Data, Json


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder of [bold]excora fit[/bold]; nothing else is needed.")],
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to: .csv or .parquet.")],
    attention: Annotated[
        Path | None, typer.Option(help="Also write the attention weight of every element: .csv or .parquet.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Also columns lower and upper that hold this share of all labels: 0.9.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Folders of bags: a table of the bags to predict.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Column that names the samples, if not as in training.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict new data with a trained run. Columns that do not fit are named and refused.

    Examples:

      excora predict run new.csv --output predictions.csv

      excora predict run new.csv --output predictions.csv --interval 0.9

      excora predict run new_features/ --output predictions.parquet --attention attention.parquet
    """
    from excora.application import predict as apply

    found = apply(run, data, labels=labels, id=id_, attention=attention is not None, interval=interval)
    found.save(output, attention)
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found)
        show(f"written to {output}" + (f" and {attention}" if attention else ""))
