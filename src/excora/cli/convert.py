"""The command ``convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from excora.cli.base import show


def convert(
    data: Annotated[Path, typer.Argument(help="A .pkl or .npz of clips in MMSA's layout.", show_default=False)],
    output: Annotated[Path, typer.Argument(help="The .safetensors file to write.", show_default=False)],
) -> None:
    """Read MMSA's pickle once, checked and repaired, and write it as .safetensors; nothing in the pickle is run.

    Examples:

      excora convert unaligned_50.pkl mosi.safetensors
    """
    from excora.data.modalities import convert as convert_clips
    from excora.data.reading import read

    convert_clips(data, output)
    found = read(output, labelled=False)
    for note in found.notes:
        show(f"note: {note}")
    show(f"{output}: {len(found):,} clips, {output.stat().st_size / 1e6:.1f} MB")
