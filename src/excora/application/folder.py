"""The run folder on disk: JSON, CSV and safetensors; read with distrust, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from excora.data.dataset import Inputs
from excora.errors import InputError, MissingExtraError
from excora.models.building import restore
from excora.models.network import Network
from excora.settings import Settings
from excora.storage import write_atomically

#: The report's inlined scripts and the small files, in bytes.
ROOM = 20_000_000


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file; anything else is an InputError."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; a run folder of `excora fit` has one") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not readable as JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """As JSON; what is not finite becomes null."""
    write_atomically(path, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """The same with None for numbers that are not finite, which JSON has no word for.

    >>> plain({"pcc": float("nan"), "n": (1, 2)})
    {'pcc': None, 'n': [1, 2]}
    """
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_weights(path: Path, network: Network) -> None:
    """The network's tensors as safetensors; equal tensors give equal bytes."""
    write_atomically(path, _safetensors().save({name: t.contiguous() for name, t in network.state_dict().items()}))


def read_weights(path: Path, inputs: Inputs, settings: Settings, learned: Any) -> Network:
    """The network with the tensors of the file, in eval mode; other names, shapes or types are an InputError.

    ``learned`` is what :attr:`Network.learned` was.
    """
    try:
        tensors: dict[str, Tensor] = _safetensors().load(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: there are no weights; a run that has not ended can be resumed (--resume)") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except Exception as error:  # safetensors has errors of its own for every way a file can be broken
        raise InputError(f"{path}: this is not a whole safetensors file: {error}") from None
    try:
        return restore(inputs, settings, learned, tensors)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ModuleNotFoundError as error:
        raise MissingExtraError("safetensors", "app") from error
    return safetensors.torch


def claim(folder: Path, *, resume: bool) -> bool:
    """Make the folder, sure that it can be written and is nobody else's; True if there is a run in it to resume."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = any(folder.iterdir())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{folder}: the run folder cannot be written: {error.strerror}; give another one") from None
    if there and not resume:
        raise InputError(
            f"{folder}: the run folder is not empty; give another one, or resume the run in it (--resume, resume=True)"
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
