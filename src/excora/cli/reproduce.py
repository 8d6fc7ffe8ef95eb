"""The command ``reproduce``: runs a study, found by its entry point, for the studies are distributions of their own.

An entry point of the group ``excora.studies`` gives an object that is cheap to load, with ``summary``, one line, and
``run(output, *, data, seeds, preset, only, console)``, which returns a dict with ``summary`` and ``table``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from excora.cli.base import console, echo_json
from excora.cli.options import Json
from excora.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "excora.studies"
INSTALL = "no studies are installed: pip install excora-studies"


def installed() -> dict[str, EntryPoint]:
    """The studies by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


class Listing(TyperCommand):
    """Its help ends with the studies that are there; they are looked up when somebody asks, not at the start."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the command, then a paragraph a study."""
        found = [f"[bold]{name}[/bold]: {entry.load().summary}" for name, entry in installed().items()]
        self.help = "\n\n".join([self.help or "", *(found or [INSTALL])])
        super().format_help(ctx, formatter)


def reproduce(
    name: Annotated[str, typer.Argument(help="Which study.", show_default=False)],
    output: Annotated[Path | None, typer.Option(help="Folder of the results; runs/NAME by default.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the study's files; else EXCORA_DATA.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions; the study's own number by default.")] = None,
    preset: Annotated[
        str, typer.Option(help="quick: to try it out, numbers mean nothing; cpu: the study; paper: for GPUs (tabular).")
    ] = "cpu",
    only: Annotated[
        list[str] | None, typer.Option(help="Only the parts with this in their name (tabular); may be repeated.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="published: the test part picks the epoch, labelled so (sentiment).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one of the paper's experiments and print its figure beside ours.

    Examples:

      excora reproduce synthetic

      excora reproduce plateau --data path/to/uci --output runs/plateau

    The studies:
    """
    found = installed()
    if name not in found:
        raise InputError(f"study must be one of {', '.join(found)}, got {name!r}" if found else INSTALL)
    content = (
        found[name]
        .load()
        .run(
            output or Path("runs") / name,
            data=data,
            seeds=seeds,
            preset=protocol or preset,
            only=only or (),
            console=None if as_json else console,
        )
    )
    if as_json:
        echo_json({"summary": content["summary"], "table": content["table"]})
