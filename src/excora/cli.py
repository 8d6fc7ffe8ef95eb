"""The command line. Heavy packages are imported inside the commands, so that ``excora --help`` answers at once."""

from __future__ import annotations

from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
except ImportError as error:  # the library alone was installed
    from excora.errors import MissingExtraError

    raise MissingExtraError(str(error.name), "app") from error

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Excora, extrapolative correlation attention: why has your correlation stopped rising, and how to go on.

Examples:

  excora demo                train softmax and ECA pooling on a synthetic task and compare them

  excora demo --seeds 5      the same with more seeds
""",
)
console = Console()


@app.callback()
def _excora() -> None:
    """Keep the commands by name even while there is only one."""


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


def main() -> None:
    """The entry point: errors that Excora raises on purpose are one line, not a traceback."""
    from excora.errors import ExcoraError

    try:
        app()
    except ExcoraError as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", highlight=False)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
