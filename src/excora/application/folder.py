"""The folder of a run: whose it is, whether there is room, and what made it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from excora.application import lock
from excora.errors import InputError
from excora.models import Network

#: The report's inlined scripts and the small files, in bytes.
ROOM = 20_000_000


def claim(folder: Path, *, resume: bool) -> bool:
    """Make the folder, sure that it can be written and is nobody else's; True if there is a run in it to resume."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = any(path.name != lock.NAME for path in folder.iterdir())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{folder}: the run folder cannot be written: {error.strerror}; give another one") from None
    if there and not resume:
        raise InputError(
            f"{folder}: the run folder is not empty; give another one, or go on with the run in it by resume="
        )
    if there and not (folder / "config.json").exists():
        raise InputError(f"{folder}: there is no config.json, so there is no run to resume here; give another folder")
    return there


def check_room(folder: Path, network: Network, *, samples: int, averaged: bool) -> None:
    """Refuse a disk on which the run has no room; ``samples`` are to be predicted, ``averaged`` weights kept."""
    # A checkpoint holds the weights, two moments of Adam, the best weights, and the average; while it is written there
    # are two. The weights of the run are one more.
    size = sum(t.numel() * t.element_size() for t in network.state_dict().values())
    need, free = (11 if averaged else 9) * size + 200 * samples + ROOM, shutil.disk_usage(folder).free
    if free < need:
        raise InputError(f"{folder}: a run takes about {need / 1e6:.0f} MB and the disk has {free / 1e6:.0f} MB left")


def versions() -> dict[str, str]:
    """What the run was made with."""
    import importlib.metadata
    import platform

    names = ("torch", "lightning", "numpy", "pandas", "safetensors")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in names},
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
    }
