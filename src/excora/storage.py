"""Files that are written whole or not at all, and JSON that is read with distrust."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from excora.errors import InputError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write all of ``content`` or nothing: a temporary file in the same folder, then one rename."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


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
