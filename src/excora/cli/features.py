"""The command ``features``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, TaskID

from excora.cli.base import console, show
from excora.cli.options import Quiet


def features(
    slides: Annotated[
        list[Path], typer.Argument(help="Slides with their image: .h5ad, Visium folders, folders of these.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for NAME.h5 a slide; what is there is kept.")],
    encoder: Annotated[
        str, typer.Option(help="efficientnet-lite0, whose weights are installed, or a timm model with --checkpoint.")
    ] = "efficientnet-lite0",
    checkpoint: Annotated[Path | None, typer.Option(help="Weights of the encoder: .safetensors or .pt.")] = None,
    field: Annotated[
        float, typer.Option(min=0, help="Side of a window in pixels of full resolution; 0: the pitch of the spots.")
    ] = 0.0,
    side: Annotated[int, typer.Option(min=32, help="Pixels that the encoder sees along a side.")] = 256,
    labels: Annotated[Path | None, typer.Option(help="Table of slides, with a column image where it lies.")] = None,
    quiet: Quiet = False,
) -> None:
    """Compute patch features of slides: a window around each spot, through an image encoder.

    Stopped, the same command goes on where it was.

    Examples:

      excora features slides/*.h5ad --output features

      excora features visium -o features --encoder resnet50 --checkpoint w.pt
    """
    from excora.data.roles import Roles
    from excora.data.spatial.extraction import extract
    from excora.data.spatial.layouts import read_slides
    from excora.encodings.images import image_encoder
    from excora.errors import DataError, InputError

    problems: list[str] = []
    found = read_slides(slides, Roles.of(labels=labels), problems, vectors=False)
    problems += [f"slide {slide.name!r} has no image" for slide in found if slide.picture is None]
    if problems:
        raise DataError(problems)
    network = image_encoder(encoder, checkpoint, side=side)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: the folder cannot be written: {error.strerror}") from None
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        for slide in found:
            task = progress.add_task(slide.name, total=len(slide))
            path = output / f"{slide.name.rpartition(':')[2]}.h5"
            extract(slide, network, path, field=field, tell=_teller(progress, task))
            show(f"{path}: {len(slide):,} spots, {network.width} features each", quiet=quiet)


def _teller(progress: Progress, task: TaskID) -> Callable[[int, int], None]:
    return lambda done, total: progress.update(task, completed=done, total=total)
