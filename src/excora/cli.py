"""The command line. Heavy packages are imported inside the commands, so that ``excora --help`` answers at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text
except ImportError as error:  # the library alone was installed
    from excora.errors import MissingExtraError

    raise MissingExtraError(str(error.name), "app") from error

from excora.studies import NAMES

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Excora, extrapolative correlation attention: why has your correlation stopped rising, and how to go on.

Examples:

  excora demo                      softmax against ECA pooling on a synthetic task

  excora diagnose predictions.csv  why has the correlation stopped rising?

  excora diagnose run.json --json  the same of a recorded run, for machines

  excora reproduce synthetic       an experiment of the paper, its figure beside ours
""",
)
console = Console()


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions: each has its own data and weights.")] = 3,
    steps: Annotated[int, typer.Option(min=10, help="Training steps of each model.")] = 600,
) -> None:
    """Train a softmax pool and an ECA pool on the synthetic plateau task and print the comparison (under a minute)."""
    import torch

    from excora import demo as demonstration

    torch.set_num_threads(1)  # the tensors are small: a second thread only waits
    steps_in_all = demonstration.total(seeds, steps)
    console.print(f"Training {steps_in_all // steps} small models for {steps} steps each: half a minute by default.")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("training", total=steps_in_all)
        results = demonstration.run(seeds=seeds, steps=steps, tick=lambda: progress.advance(task))
    table = Table(title=f"Test set, mean ± standard deviation over {seeds} seeds")
    for column in ("task", "pool", "PCC", "MSE", "ceiling"):
        table.add_column(column, justify="left" if column in ("task", "pool") else "right", no_wrap=True)
    for result in results:
        cells = ["{:.3f} ± {:.3f}".format(*result.spread(values)) for values in (result.pcc, result.mse)]
        table.add_row(result.setting, result.pool, *cells, f"{result.ceiling:.3f}")
    console.print(table)
    console.print(
        "ceiling: the best PCC that softmax attention can reach with any weights. Where the label reaches beyond the "
        "bag, ECA passes it. Where the label stays within, there is nothing beyond to gain: plain attention will do."
    )


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet of predictions, or a JSON of PlateauMonitor.")],
    prediction: Annotated[str, typer.Option(help="Column of the predictions.")] = "prediction",
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "target",
    epoch: Annotated[str | None, typer.Option(help="Column of the epoch; 'epoch' if there is one.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the group; 'group' if there is one.")] = None,
    noise_ceiling: Annotated[float | None, typer.Option(help="The best PCC that label noise allows, if known.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why the correlation has stopped rising: the verdict, its evidence, and what to try next.

    Examples:

      excora diagnose predictions.csv

      excora diagnose test.parquet --prediction yhat --target y --group slide
    """
    from excora.diagnosis import diagnose_file

    found = diagnose_file(
        file, prediction=prediction, target=target, epoch=epoch, group=group, noise_ceiling=noise_ceiling
    )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        console.print(found)


@app.command(
    help=f"""Run one of the paper's experiments and print its figure beside ours.

{chr(10).join(f"[bold]{name}[/bold]: {what}" + chr(10) for name, what in NAMES.items())}
Examples:

  excora reproduce synthetic

  excora reproduce plateau --data path/to/uci --output runs/plateau
"""
)
def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    output: Annotated[Path | None, typer.Option(help="Folder of the results; runs/NAME by default.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the UCI files (plateau only); else EXCORA_DATA.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions; the study's own number by default.")] = None,
    quick: Annotated[
        bool, typer.Option(help="Seconds instead of minutes: to try it out, the numbers mean nothing.")
    ] = False,
) -> None:
    """See the help above."""
    from excora.studies import reproduce as run

    run(name, output or Path("runs") / name, data=data, seeds=seeds, quick=quick, console=console)


def main() -> None:
    """The entry point: errors that Excora raises on purpose are one line, not a traceback."""
    from excora.errors import ExcoraError

    try:
        app()
    except ExcoraError as error:
        Console(stderr=True, soft_wrap=True).print("[red]error:[/red]", Text(str(error)))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
