"""What a study has computed so far, saved part by part so that it can be interrupted, resumed and shared."""

from __future__ import annotations

import csv
import functools
import io
import json
import platform
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import excora
from excora import storage
from excora.errors import InputError
from excora.storage import Parts, slug, write_atomically

DIGITS = 6  # significant digits of a stored number


plain = functools.partial(storage.plain, digits=DIGITS)


class Store:
    """What one study, of parts ``keys``, has computed so far in one folder.

    While it runs, each part is a file of its own in the folder ``parts``, written whole or not at all: it can be
    stopped at any time, and several processes can share the work. Once all parts are there they move to one file a
    table, ``table_of`` naming it by the part's key, or, without that, to results.json, which has the rest.
    """

    def __init__(
        self,
        folder: Path,
        study: str,
        configuration: dict[str, Any],
        *,
        keys: Sequence[str],
        table_of: Callable[[str], str] | None = None,
    ) -> None:
        self.path, self.parts, self.keys = folder / "results.json", Parts(folder / "parts"), list(keys)
        self._table_of = table_of
        self._known: dict[str, Any] = {}
        self._head: dict[str, Any] = {"study": study, "complete": False, "configuration": plain(configuration)}
        self._head |= {"versions": versions()}
        if self.path.exists():
            self._resume()
        else:
            write_atomically(self.path, _json(self._head))

    def _resume(self) -> None:
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            same = all(stored[key] == self._head[key] for key in ("study", "configuration"))
            # What was computed with other versions stays: they are noted by part.
            self.look()
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path} is not the results of a study; choose another output folder") from error
        if not same:
            raise InputError(
                f"{self.path} holds another study or another configuration; to resume, give the same options; "
                "else choose another output folder or remove this one"
            )

    @property
    def results(self) -> dict[str, Any]:
        """Results by part, in the order of ``keys``."""
        return {key: self._known[key]["result"] for key in self.keys if key in self._known}

    @property
    def complete(self) -> bool:
        """Whether all parts are there."""
        return all(key in self._known for key in self.keys)

    def look(self) -> None:
        """Learn of what other processes have added."""
        # Parts first: who finishes writes the tables before it removes the parts, so that none is missed.
        found: dict[str, Any] = {part.pop("key"): part for part in self.parts.read_all()}
        for file in dict.fromkeys(map(self._finished, self.keys)):
            if file.exists():
                stored = json.loads(file.read_text(encoding="utf-8"))
                found |= stored.get("chunks", {}) if file == self.path else stored
        self._known |= found

    def _finished(self, key: str) -> Path:
        """The file of a part once all are there."""
        return self.path if self._table_of is None else self.path.with_name(f"{slug(self._table_of(key))}.json")

    def chunk(self, key: str, compute: Callable[[], Any]) -> bool:
        """Compute and save the part unless it is there; True if it was."""
        if key not in self._known:
            self.look()
        if key in self._known:
            return True
        start = time.perf_counter()
        result = plain(compute())
        seconds = plain(time.perf_counter() - start)
        self._known[key] = {"result": result, "seconds": seconds, "versions": versions()}
        self.parts.write(key, {"key": key, **self._known[key]})
        return False

    def finish(self, rows: Sequence[dict[str, Any]], summary: dict[str, Any]) -> dict[str, Any]:
        """Save the table and the summary, and the parts, if all are there, in their last place."""
        content = self._head | {"complete": self.complete}
        if self.complete and self._table_of is None:
            content["chunks"] = {key: self._known[key] for key in self.keys}
        elif self.complete:
            self._write_tables()
        content |= {"summary": plain(summary), "table": plain(list(rows))}
        write_atomically(self.path, _json(content))
        if self.complete:
            for key in self.keys:  # the folder stays: another process may be about to write into it
                self.parts.path(key).unlink(missing_ok=True)
        return content

    def _write_tables(self) -> None:
        """A line a part, so that one can see what has changed."""
        tables: dict[Path, list[str]] = {}
        for key in self.keys:
            line = f"{_json(key)}:{_json(self._known[key])}"
            tables.setdefault(self._finished(key), []).append(line)
        for file, lines in tables.items():
            write_atomically(file, "{\n" + ",\n".join(lines) + "\n}\n")


def _json(content: Any) -> str:
    return json.dumps(content, indent=None, separators=(",", ":"), allow_nan=False)


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    return {
        "excora": excora.__version__,
        "torch": metadata.version("torch"),  # without importing it
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
