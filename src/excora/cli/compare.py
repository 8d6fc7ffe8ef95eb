"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli import options
from excora.cli.base import echo_json, show
from excora.cli.options import Data, Json, Quiet


@options.roles
def compare(
    data: Data,
    roles: dict[str, Any],
    settings: Any,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of results and report; needed to resume.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated: a model, a model with a pool (MODEL:POOL), a pool of --model, or a peer; see "
            "[bold]excora models[/bold]. By default the pools of --model and the peers."
        ),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts; each is the test part once.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions: other folds, other starts.")] = 3,
    margin: Annotated[
        float, typer.Option(help="A difference in PCC that would not matter: an interval inside is 'no difference'.")
    ] = 0.02,
    resume: Annotated[bool, typer.Option(help="Go on with a comparison that was stopped.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Models, their pools, and what one would use instead (ridge, nearest neighbours, LightGBM), on the same folds.

    The best model first; paired intervals over all pairs at once say which differences are more than noise, and where
    one cannot tell.

    Examples:

      excora compare table.csv --target price

      excora compare cells.parquet --bag slide --target survival --output folder

      excora compare table.csv --target price --models retrieval,pool:eca,lightgbm
    """
    from excora.application import compare as run

    found = run(
        options.given(data),
        output=output,
        models=None if models is None else [name.strip() for name in models.split(",")],
        folds=folds,
        seeds=seeds,
        margin=margin,
        settings=settings,
        progress=not (as_json or quiet),
        resume=resume,
        **roles,
    )
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found, quiet=quiet)
