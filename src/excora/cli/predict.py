"""The command ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli.base import echo_json, show
from excora.cli.options import Data, Decimal, Encoding, Json, Quiet, Sep, given


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder of [bold]excora fit[/bold]; nothing else is needed.")],
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to: .csv, .parquet, of slides .h5ad.")],
    attention: Annotated[
        Path | None, typer.Option(help="Also write the attention weight of every element: .csv or .parquet.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Also columns lower and upper that hold this share of all labels: 0.9.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Folders of bags: a table of the bags to predict.")] = None,
    features: Annotated[Path | None, typer.Option(help="Slides: folder of patch features, NAME.h5 a slide.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Column that names the samples, if not as in training.")
    ] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over files that are there.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict new data with a trained run. Columns that do not fit are named and refused.

    If the data have the target, it is carried over and the scores are printed.

    Examples:

      excora predict run new.csv --output predictions.csv

      excora predict run new.csv --output predictions.csv --interval 0.9

      excora predict run slide.h5ad --output predicted.h5ad

      excora predict run new_bags/ --output out.parquet --attention weights.csv
    """
    from excora.application import predict as apply
    from excora.application.predicting import check_free

    check_free(output, attention, overwrite=overwrite)
    written: dict[str, Any] = {"sep": sep, "decimal": decimal, "encoding": encoding}
    asked: dict[str, Any] = {"labels": labels, "features": features, "id": id_, "attention": attention is not None}
    found = apply(run, given(data), interval=interval, **asked, **written)
    found.save(output, attention, overwrite=overwrite)
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found, quiet=quiet)
        show(f"written to {output}" + (f" and {attention}" if attention else ""), quiet=quiet)
