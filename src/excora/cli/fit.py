"""The command ``fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli import options
from excora.cli.base import echo_json, show
from excora.cli.options import Data, Json, Quiet, Test, Validation


@options.roles
def fit(
    data: Data,
    roles: dict[str, Any],
    settings: Any,
    output: Annotated[Path, typer.Option("--output", "-o", help="The run folder; made, and never overwritten.")],
    validation: Validation = 0.2,
    test: Test = 0.2,
    resume: Annotated[bool, typer.Option(help="Go on with a run that was stopped; the result is the same.")] = False,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Simple models on the same split, beside the model.")
    ] = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train, choose the epoch on validation, look at the test part once, and write the run folder with its report.

    Examples:

      excora fit table.csv --target price --output run

      excora fit cells.parquet --bag slide --target y --group patient --output run

      excora fit features/ --labels labels.csv --target y --output run

      excora fit slides/*.h5ad --features features/ --output run

      excora fit table.csv --target price --output run --resume
    """
    from excora.application import fit as train

    run = train(
        options.given(data),
        output=output,
        settings=settings,
        validation=validation,
        test=test,
        resume=resume,
        baselines=baselines,
        progress=not (quiet or as_json),
        **roles,
    )
    if not run.writes:  # the other processes of a distributed run
        return
    if as_json:
        echo_json(run.results)
    else:
        show(run, quiet=quiet)
    if run.state == "interrupted":
        raise typer.Exit(130)
