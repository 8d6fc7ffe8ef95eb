"""The numbers of the pages, rendered from stored results: ``python -m excora_studies.pages FOLDER [PAGE ...]``.

A block between ``<!-- results: NAME -->`` and ``<!-- end -->``, in the Markdown files of FOLDER and in each PAGE, is
replaced by what the study that has NAME among its BLOCKS makes of FOLDER/results.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from excora.errors import InputError
from excora.storage import write_atomically
from excora_studies import STUDIES
from excora_studies.markdown import Contents, table

_MARK = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def blocks() -> dict[str, Callable[[Contents], str]]:
    """Every block by name: those of the studies, and the table of their runs."""
    found: dict[str, Callable[[Contents], str]] = {}
    for entry in STUDIES.values():
        found |= entry.module().BLOCKS
    return found | {"runs": _runs}


def _runs(contents: Contents) -> str:
    """Seeds, epochs, time and versions of each study."""
    rows = []
    for name, one in contents.items():
        protocol = one["configuration"].get("protocol") or one["configuration"].get("setup")
        if protocol is None:  # nothing is trained in epochs: it has a page of its own
            continue
        seconds = sum(chunk["seconds"] for chunk in one["chunks"].values())
        seeds = len(one["configuration"]["seeds"])
        rows.append([f"`{name}`", str(seeds), str(protocol["epochs"]), f"{seconds:.0f} s", one["versions"]["torch"]])
    return table(("study", "seeds", "epochs", "time, on a shared machine", "torch"), rows)


def read(folder: Path) -> Contents:
    """results.json of each study in ``folder``."""
    paths = {name: folder / name / "results.json" for name in STUDIES}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def render(text: str, contents: Contents) -> str:
    """``text`` with every block made anew; an unknown block is an error."""
    known = blocks()

    def replace(match: re.Match[str]) -> str:
        if match[2] not in known:
            raise InputError(f"a results block must be one of {', '.join(known)}, got {match[2]!r}")
        return f"{match[1]}\n{known[match[2]](contents)}\n\n{match[3]}"

    return _MARK.sub(replace, text)


def main(arguments: list[str]) -> int:
    """Write the pages of a folder, and further ones, anew."""
    if not arguments:
        print("usage: python -m excora_studies.pages FOLDER [PAGE ...]", file=sys.stderr)
        return 2
    folder, *more = map(Path, arguments)
    contents = read(folder / "results")
    for page in (*sorted(folder.glob("*.md")), *more):
        text = page.read_text(encoding="utf-8")
        if (anew := render(text, contents)) != text:
            write_atomically(page, anew)
            print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
