"""The command ``diagnose``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from excora.cli.base import echo_json, show
from excora.cli.options import Json
from excora.errors import InputError


def diagnose(
    file: Annotated[
        Path, typer.Argument(help="A run folder, a table of predictions (.csv, .tsv, .parquet), or a monitor's JSON.")
    ],
    prediction: Annotated[str, typer.Option(help="Column of the predictions.")] = "prediction",
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "target",
    epoch: Annotated[str | None, typer.Option(help="Column of the epoch; 'epoch' if there is one.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the group; 'group' if there is one.")] = None,
    part: Annotated[
        str | None, typer.Option(help="Only this part of a file with a column 'part'; else each by itself.")
    ] = None,
    noise_ceiling: Annotated[float | None, typer.Option(help="The best PCC that label noise allows, if known.")] = None,
    inside: Annotated[
        Path | None,
        typer.Option(help="Data to look inside the run with: what its pooling weights are worth; the report shows it."),
    ] = None,
    transport: Annotated[
        bool, typer.Option("--transport", help="With --inside: also how far each layer is from an optimal map.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say why the correlation has stopped rising: the verdict, its evidence, and what to try next.

    Examples:

      excora diagnose run

      excora diagnose run --inside data.csv --transport

      excora diagnose predictions.csv

      excora diagnose run/predictions.csv --part test

      excora diagnose test.parquet --prediction yhat --target y --group slide
    """
    from excora.diagnosis import diagnose_file

    if transport and inside is None:
        raise InputError("--transport is of a look inside: name the data, --inside data.csv")
    looked = None if inside is None else _inside(file, inside, transport=transport)
    found = diagnose_file(
        file,
        prediction=prediction,
        target=target,
        epoch=epoch,
        group=group,
        part=part,
        noise_ceiling=noise_ceiling,
    )
    if as_json:
        echo_json(found.to_dict() | ({} if looked is None else {"inside": looked._asdict()}))
    else:
        show(found)
        if looked is not None:
            show(*_tables(looked))


def _inside(run: Path, data: Path, *, transport: bool) -> Any:
    from excora.application.inside import inside

    if not run.is_dir():
        raise InputError(f"{run}: --inside looks into a run folder of `excora fit`, and this is none")
    return inside(run, data, transport=transport)


def _tables(looked: Any) -> list[Any]:
    """The pools, how singular values fall, and the layers for a console."""
    from excora.console import table

    found: list[Any] = [f"{row['pool']}: {row['reason']}" for row in looked.pools if "reason" in row]
    for rows, first in ((looked.pools, ("pool",)), (looked.layers, ("layer", "kind"))):
        full = [row for row in rows if "reason" not in row]
        numbers = [name for name in (full[0] if full else {}) if name not in (*first, "separates")]
        cells = [[*(row[name] for name in first), *(f"{row[name]:.4g}" for name in numbers)] for row in full]
        found += [table(cells, (*first, *numbers))] if full else []
    for row in looked.spectra:
        cosine = "" if row["mean_cosine"] is None else f" (mean cosine {row['mean_cosine']:.3f})"
        found.append(f"{row['of']}, {row['kind']}: 90 % of the energy in {row['reading']}{cosine}")
    return found
