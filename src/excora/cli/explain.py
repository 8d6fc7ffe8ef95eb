"""The command ``explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli.base import echo_json, show
from excora.cli.options import Data, Decimal, Encoding, Json, Sep, given


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder of [bold]excora fit[/bold].")],
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the page: .html.")] = None,
    target: Annotated[str | None, typer.Option(help="Which target, if there are several; the first.")] = None,
    sample: Annotated[list[str] | None, typer.Option(help="The id of a sample to explain; may be repeated.")] = None,
    rows: Annotated[int, typer.Option(help="Without --sample: how many, from the first.", min=1)] = 5,
    tolerance: Annotated[
        float, typer.Option(help="A set counts that moves the prediction further, in deviations of the labels.")
    ] = 0.25,
    sensitivity: Annotated[
        float, typer.Option(help="N of the graph's test: a knob, no sample size. Larger keeps weaker edges.")
    ] = 100.0,
    most: Annotated[int, typer.Option(help="Elements of the largest set that is tried.", min=1)] = 2,
    labels: Annotated[Path | None, typer.Option(help="Folders of bags: a table of the bags to explain.")] = None,
    features: Annotated[Path | None, typer.Option(help="Slides: folder of patch features, NAME.h5 a slide.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Column that names the samples, if not as in training.")
    ] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Say which columns (elements of a bag, words, patches) predictions hang on; checked by leaving them out.

    Examples:

      excora explain run new.csv

      excora explain run new.csv --output why.html --rows 3

      excora explain run slide.h5ad --target ERBB2 --sample s1/10x12
    """
    from excora.application import explain as apply
    from excora.application.predicting import check_free
    from excora.diagnosis.explaining import said

    check_free(output, overwrite=overwrite)
    how: dict[str, Any] = {"tolerance": tolerance, "sensitivity": sensitivity, "most": most}
    how |= {"labels": labels, "features": features, "id": id_, "sep": sep, "decimal": decimal, "encoding": encoding}
    found = apply(run, given(data), target=target, samples=sample or (), most_rows=rows, **how)
    if output is not None:
        found.save(output, overwrite=overwrite)
    if as_json:
        echo_json(found.to_dict())
        return
    for id, one in found.rows.items():
        show(f"{id}: {found.target} = {said(one.prediction)}. {one.sentence}")
    if output is not None:
        show(f"written to {output}")
