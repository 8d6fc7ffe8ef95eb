"""Commands that need no data of the user's, or only predictions: demo, diagnose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from excora.cli.base import console, echo_json, show
from excora.cli.options import Json


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results and the report.")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions: each has its own data and weights.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training bags.")] = 24,
    bags: Annotated[int, typer.Option(min=20, help="Bags of each setting.")] = 1000,
    as_json: Json = False,
) -> None:
    """See it work: softmax against ECA pooling, where extrapolation helps and where it does not, and the report."""
    from excora.demo import run

    shown = run(output, seeds=seeds, epochs=epochs, bags=bags, console=None if as_json else console)
    if as_json:
        echo_json({name: comparison.to_dict() for name, comparison in shown.comparisons.items()})


def diagnose(
    file: Annotated[
        Path, typer.Argument(help="A run folder, a table of predictions (.csv, .tsv, .parquet), or a monitor's JSON.")
    ],
    prediction: Annotated[str, typer.Option(help="Column of the predictions.")] = "prediction",
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "target",
    epoch: Annotated[str | None, typer.Option(help="Column of the epoch; 'epoch' if there is one.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the group; 'group' if there is one.")] = None,
    noise_ceiling: Annotated[float | None, typer.Option(help="The best PCC that label noise allows, if known.")] = None,
    as_json: Json = False,
) -> None:
    """Say why the correlation has stopped rising: the verdict, its evidence, and what to try next.

    Examples:

      excora diagnose run

      excora diagnose predictions.csv

      excora diagnose test.parquet --prediction yhat --target y --group slide
    """
    from excora.diagnosis import diagnose_file

    found = diagnose_file(
        file,
        prediction=prediction,
        target=target,
        epoch=epoch,
        group=group,
        noise_ceiling=noise_ceiling,
    )
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found)
