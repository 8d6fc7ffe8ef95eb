"""The experiments behind Excora, one file or folder each, run by ``excora reproduce NAME`` or :func:`reproduce`.

Importing this package loads nothing heavy: the command line lists :data:`STUDIES` without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from excora_studies.catalogue import STUDIES

__all__ = ["STUDIES", "reproduce"]


def reproduce(
    name: str,
    output: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    preset: str = "cpu",
    only: Sequence[str] = (),
    console: Any = None,
) -> dict[str, Any]:
    """Run the study ``name`` into the folder ``output`` and return what results.json holds.

    The folder gets results.json (all numbers, seeds, versions, configuration), table.csv, a PNG of each figure and
    figures.html (interactive, works offline). Each part is saved as it is done: after Ctrl-C the same call goes on
    from there, and a finished study is only drawn again. ``seeds`` repeats. ``preset``:
    "quick" is for trying it out, its numbers mean nothing; "cpu" is the study; "paper" has the paper's sizes, for
    ``tabular`` on a GPU. ``only``: the parts of ``tabular`` whose name contains one of these texts, for several
    processes on one folder. ``data`` is the folder of the UCI files, for the studies on real data; else
    EXCORA_DATA. ``console`` is a rich console; None prints nothing.

    An unknown name or preset, or a folder with results of another configuration, raises :class:`InputError`.
    """
    from excora.errors import InputError

    if name not in STUDIES:
        raise InputError(f"study must be one of {', '.join(STUDIES)}, got {name!r}")
    return STUDIES[name].run(output, data=data, seeds=seeds, preset=preset, only=only, console=console)
