"""Files: nothing is lost or half-written, what is read is checked; finished parts that a computation goes on from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from excora.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def plain(value: Any, *, digits: int | None = None) -> Any:
    """As JSON holds it: arrays, tensors and tuples as lists, records as objects, what is not finite as null.

    ``digits``: significant digits of a number, all unless given.

    >>> import numpy as np
    >>> plain({"pcc": float("nan"), "n": (1, 2), 3: np.array([1 / 3])}, digits=3)
    {'pcc': None, 'n': [1, 2], '3': [0.333]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(item, digits=digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, digits=digits) for item in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def fingerprint(*parts: NDArray[Any] | None) -> str:
    """A hash of numbers, their types and shapes, that differs if anything in them does.

    >>> import numpy as np
    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1))), len(fingerprint(None))
    (False, 64)
    """
    import numpy as np  # here, as --help has no use for it

    found = hashlib.sha256()
    for part in parts:
        numbers = np.empty(0) if part is None else part
        found.update(f"{numbers.dtype.str}{numbers.shape}".encode())
        found.update(np.ascontiguousarray(numbers).tobytes())
    return found.hexdigest()


class Parts:
    """Finished parts of a long computation, a JSON file each in one folder, so that it can be stopped and taken up.

    A part is written as soon as it is done, whole or not at all. Processes that share a folder see each other's parts.

    >>> parts = Parts(Path(tempfile.mkdtemp()))
    >>> parts.write("ridge | seed 0", {"pcc": 0.5})
    >>> parts.read("ridge | seed 0"), parts.read("ridge | seed 1"), [path.name for path in parts.files()]
    ({'pcc': 0.5}, None, ['ridge-seed-0.json'])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def claim(self) -> None:
        """Make the folder and try to write there: now rather than after hours."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()
        except OSError as error:
            raise InputError(f"{self.folder}: the output folder cannot be written: {error.strerror}") from None

    def path(self, key: str) -> Path:
        """The file of a part; keys differ in more than case and punctuation."""
        return self.folder / f"{slug(key)}.json"

    def files(self) -> list[Path]:
        """Those that are there, by name."""
        return sorted(self.folder.glob("*.json"))

    def read(self, key: str) -> dict[str, Any] | None:
        """The part if it is there; a broken file is an InputError."""
        return _part(self.path(key))

    def read_all(self) -> Iterator[dict[str, Any]]:
        """Every part that is there."""
        return (part for part in map(_part, self.files()) if part is not None)

    def write(self, key: str, content: dict[str, Any]) -> None:
        """Keep the part, whole or not at all."""
        write_atomically(self.path(key), json.dumps(content, allow_nan=False))


def _part(path: Path) -> dict[str, Any] | None:
    """None where there is none, or no longer: another process may have moved it."""
    try:
        return read_json(path)
    except InputError as error:
        if not path.exists():
            return None
        raise InputError(f"{error}; remove it, and it is computed again") from None


def slug(text: str) -> str:
    """As the name of a file.

    >>> slug("News (partial) random")
    'news-partial-random'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
