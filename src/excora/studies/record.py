"""What a study has computed so far, saved part by part so that it can be interrupted and resumed.

One file, results.json; a long study has a file a part besides, so that several processes can share the work.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import excora
from excora import storage
from excora.errors import InputError
from excora.storage import Parts, write_atomically

DIGITS = 6  # significant digits of a stored number


plain = functools.partial(storage.plain, digits=DIGITS)


class Record:
    """The results of one study in one folder.

    With ``separate`` each chunk is a file of its own in the folder ``parts``, and results.json has the rest.
    """

    def __init__(self, folder: Path, study: str, configuration: dict[str, Any], *, separate: bool = False) -> None:
        self.path = folder / "results.json"
        self.parts = Parts(folder / "parts") if separate else None
        configuration = plain(configuration)
        self.content: dict[str, Any] = {"study": study, "complete": False, "configuration": configuration}
        self.content |= {"versions": versions(), "chunks": {}}
        if self.path.exists():
            self._resume(study, configuration)
        elif separate:
            self.save()

    def _resume(self, study: str, configuration: dict[str, Any]) -> None:
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            same = stored["study"] == study and stored["configuration"] == configuration
            chunks = dict(stored["chunks"]) if self.parts is None else self._read_parts()
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path} is not the results of a study; choose another output folder") from error
        if not same:
            raise InputError(
                f"{self.path} holds another study or another configuration; to resume, give the same options; "
                "else choose another output folder or remove this one"
            )
        # What was computed with other versions stays: they are noted by chunk.
        self.content["chunks"] = chunks

    def _read_parts(self) -> dict[str, Any]:
        assert self.parts is not None
        return {part.pop("key"): part for part in self.parts.read_all()}

    @property
    def chunks(self) -> dict[str, Any]:
        """Results by chunk."""
        return {key: chunk["result"] for key, chunk in self.content["chunks"].items()}

    def chunk(self, key: str, compute: Callable[[], Any]) -> bool:
        """Compute and save the chunk unless it is there; True if it was."""
        if self.parts is not None and self.parts.path(key).exists():  # another process may have come first
            self.content["chunks"] |= self._read_parts()
        if key in self.content["chunks"]:
            return True
        start = time.perf_counter()
        result = plain(compute())
        seconds = plain(time.perf_counter() - start)
        chunk = {"result": result, "seconds": seconds, "versions": versions()}
        self.content["chunks"][key] = chunk
        if self.parts is None:
            self.save()
        else:
            self.parts.write(key, {"key": key, **chunk})
        return False

    def finish(
        self, rows: Sequence[dict[str, Any]], summary: dict[str, Any], *, complete: bool = True
    ) -> dict[str, Any]:
        """Add the table and the summary, and save."""
        self.content |= {"complete": complete, "summary": plain(summary), "table": plain(list(rows))}
        self.save()
        return self.content

    def save(self) -> None:
        """Write results.json, whole or not at all."""
        content = self.content if self.parts is None else {k: v for k, v in self.content.items() if k != "chunks"}
        write_atomically(self.path, _json(content))


def _json(content: Any) -> str:
    return json.dumps(content, indent=None, separators=(",", ":"), allow_nan=False)


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    return {
        "excora": excora.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as CSV; the columns are those of the first row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
