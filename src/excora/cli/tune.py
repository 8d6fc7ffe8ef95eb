"""The command ``tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli import options
from excora.cli.base import echo_json, show
from excora.cli.options import Data, Json, Quiet, Test, Validation


@options.roles
def tune(
    data: Data,
    roles: dict[str, Any],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder; made, and never overwritten.")],
    validation: Validation = 0.2,
    test: Test = 0.2,
    members: Annotated[int, typer.Option(min=1, help="Networks whose mean is the prediction.")] = 4,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try, from a list of ten.")] = 10,
    seconds: Annotated[float, typer.Option(min=0, help="No trial begins after so many seconds of CPU.")] = 120.0,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of each network; by the number of rows.")] = None,
    default: Annotated[bool, typer.Option(help="Half of the prediction is that of the default model.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and the networks.")] = 0,
    resume: Annotated[
        bool, typer.Option(help="Go on with the one in the folder, of the same data and options.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tune an ensemble for a table on validation, look at the test part once, and write a folder that predict reads.

    A report is in it too. A run that was stopped goes on with --resume.

    Examples:

      excora tune table.csv --target price --output tuned

      excora tune table.csv --target price --output tuned --seconds 600

      excora tune table.csv --target price --output tuned --resume

      excora predict tuned new.csv --output predictions.csv
    """
    from excora.application.tuning import tune as run

    found = run(
        options.given(data), output=output, validation=validation, test=test, members=members, trials=trials,
        seconds=seconds, epochs=epochs, default=default, seed=seed, progress=not (as_json or quiet), resume=resume,
        **roles,
    )  # fmt: skip
    if as_json:
        echo_json(found.results)
    else:
        show(found, quiet=quiet)
