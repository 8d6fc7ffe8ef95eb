"""The command ``explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli.base import echo_json, show
from excora.cli.options import Data, Json, given


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder of [bold]excora fit[/bold].")],
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the page: .html.")] = None,
    target: Annotated[str | None, typer.Option(help="Which target, if there are several; the first.")] = None,
    rows: Annotated[int, typer.Option(help="How many samples, from the first.", min=1)] = 5,
    tolerance: Annotated[
        float, typer.Option(help="A set counts that moves the prediction further, in deviations of the labels.")
    ] = 0.25,
    sensitivity: Annotated[
        float, typer.Option(help="N of the graph's test: a knob, no sample size. Larger keeps weaker edges.")
    ] = 768.0,
    most: Annotated[int, typer.Option(help="Elements of the largest set that is tried.", min=1)] = 2,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Say which columns (or elements of a bag) predictions hang on; checked by leaving them out.

    Examples:

      excora explain run new.csv

      excora explain run new.csv --output why.html --rows 3
    """
    from excora.application import explain as apply
    from excora.application.predicting import check_free

    check_free(output, overwrite=overwrite)
    how: dict[str, Any] = {"tolerance": tolerance, "sensitivity": sensitivity, "most": most}
    found = apply(run, given(data), target=target, most_rows=rows, **how)
    if output is not None:
        found.save(output, overwrite=overwrite)
    if as_json:
        echo_json(found.to_dict())
        return
    for id, one in found.rows.items():
        show(f"{id}: {found.target} = {one.prediction:.4g}. {one.sentence}")
    if output is not None:
        show(f"written to {output}")
