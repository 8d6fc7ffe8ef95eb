"""Commands that need no data of the user's, or only predictions: demo, diagnose, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from excora.cli.base import console, echo_json, show
from excora.cli.options import Json
from excora.studies import NAMES

REPRODUCE = f"""Run one of the paper's experiments and print its figure beside ours.

{chr(10).join(f"[bold]{name}[/bold]: {what}" + chr(10) for name, what in NAMES.items())}
Examples:

  excora reproduce synthetic

  excora reproduce plateau --data path/to/uci --output runs/plateau
"""


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


def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    output: Annotated[Path | None, typer.Option(help="Folder of the results; runs/NAME by default.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the UCI files; else EXCORA_DATA.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions; the study's own number by default.")] = None,
    preset: Annotated[
        str, typer.Option(help="quick: to try it out, numbers mean nothing; cpu: the study; paper: for GPUs (tabular).")
    ] = "cpu",
    only: Annotated[
        list[str] | None, typer.Option(help="Only the parts with this in their name (tabular); may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one of the paper's experiments; :data:`REPRODUCE` is its help."""
    from excora.studies import reproduce as run

    content = run(
        name,
        output or Path("runs") / name,
        data=data,
        seeds=seeds,
        preset=preset,
        only=only or (),
        console=None if as_json else console,
    )
    if as_json:
        echo_json({"summary": content["summary"], "table": content["table"]})
