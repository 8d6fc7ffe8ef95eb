"""Commands on the user's own data: validate, fit, predict, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from excora.cli import options
from excora.cli.base import console, echo_json, show
from excora.cli.options import Data, Json
from excora.settings import Settings

Validation = Annotated[float, typer.Option(help="Share of the samples that choose the epoch.", rich_help_panel="Data")]
Test = Annotated[float, typer.Option(help="Share of the samples that are looked at once.", rich_help_panel="Data")]


@options.roles
def validate(
    data: Data, roles: dict[str, Any], validation: Validation = 0.2, test: Test = 0.2, as_json: Json = False
) -> None:
    """Check data as training would, and everything at once: files, columns, targets, bags, groups, the split.

    Examples:

      excora validate slides.csv --target y --group slide

      excora validate features/ --labels labels.csv --target y
    """
    from excora.data.validation import validate as check

    with Progress(console=console, transient=True, disable=not console.is_terminal or as_json) as progress:
        task = progress.add_task("reading bags", visible=False)

        def tell(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, visible=True)

        summary = check(data, validation=validation, test=test, progress=tell, **roles)
    if as_json:
        echo_json(summary.to_dict())
    else:
        show(summary)


@options.settings
@options.roles
def fit(
    data: Data,
    roles: dict[str, Any],
    settings: Settings,
    output: Annotated[Path, typer.Option("--output", "-o", help="The run folder; made, and never overwritten.")],
    validation: Validation = 0.2,
    test: Test = 0.2,
    resume: Annotated[bool, typer.Option(help="Go on with a run that was stopped; the result is the same.")] = False,
    as_json: Json = False,
) -> None:
    """Train, choose the epoch on validation, look at the test part once, and write the run folder with its report.

    Examples:

      excora fit table.csv --target price --output run

      excora fit cells.parquet --bag slide --target survival --group patient --output run

      excora fit features/ --labels labels.csv --target y --output run --workers 2

      excora fit table.csv --target price --output run --resume

      excora fit table.csv --target price --output run --devices 2 --strategy ddp
    """
    from excora.training import fit as train

    run = train(
        data,
        output=output,
        settings=settings,
        validation=validation,
        test=test,
        resume=resume,
        progress=console.is_terminal and not as_json,
        **roles,
    )
    if not run.writes:  # the other processes of a distributed run
        return
    if as_json:
        echo_json(run.results)
    else:
        show(run)
    if run.state == "interrupted":
        raise typer.Exit(130)


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder of [bold]excora fit[/bold]; nothing else is needed.")],
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to: .csv or .parquet.")],
    attention: Annotated[
        Path | None, typer.Option(help="Also write the attention weight of every element: .csv or .parquet.")
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

      excora predict run new_features/ --output predictions.parquet --attention attention.parquet
    """
    from excora.training import predict as apply

    found = apply(run, data, labels=labels, id=id_, attention=attention is not None)
    found.save(output, attention)
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found)
        show(f"written to {output}" + (f" and {attention}" if attention else ""))


@options.settings
@options.roles
def compare(
    data: Data,
    roles: dict[str, Any],
    settings: Settings,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of results and report; needed to resume.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this model; repeat it for several. All by default.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts; each is the test part once.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions: other folds, other starts.")] = 3,
    resume: Annotated[bool, typer.Option(help="Go on with a comparison that was stopped.")] = False,
    as_json: Json = False,
) -> None:
    """Mean, softmax, gated and ECA pooling beside ridge, nearest neighbours and LightGBM, on the same folds.

    Pools are compared within one model, --model. Paired intervals say which differences are more than noise.

    Examples:

      excora compare table.csv --target price

      excora compare cells.parquet --bag slide --target survival --group patient --output comparison

      excora compare table.csv --target price --only softmax --only eca --seeds 5
    """
    from excora.comparison import MODELS
    from excora.comparison import compare as run

    found = run(
        data,
        output=output,
        models=tuple(only) if only else MODELS,
        folds=folds,
        seeds=seeds,
        settings=settings,
        progress=not as_json,
        resume=resume,
        **roles,
    )
    if as_json:
        echo_json(found.to_dict())
    else:
        show(found)
