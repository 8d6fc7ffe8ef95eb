"""Every link, anchor and picture of a built site leads somewhere: ``python -m checks.links FOLDER``, in ``make docs``.

Reads the pages as a browser does, without the internet: links to other hosts are counted, not followed. The address of
a file inside the folder must exist, and a part after ``#`` must be the id (or name) of something on that page.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse


class Page(HTMLParser):
    """The ids of a page, and the addresses it uses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = {"", "top"}
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.ids.add(value or "")
            elif name in ("href", "src", "poster", "data"):
                self.addresses.append(value or "")
            elif name == "srcset":
                self.addresses += [part.split()[0] for part in (value or "").split(",") if part.strip()]


def broken(folder: Path) -> tuple[list[str], int, int]:
    """What leads nowhere, as ``page: address (why)``; how many addresses were followed, and how many lie elsewhere."""
    folder = folder.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    found, followed, outside = [], 0, 0
    for path, page in pages.items():
        for address in page.addresses:
            if urlparse(address).scheme or address.startswith("//"):
                outside += 1
                continue
            followed += 1
            why = _why_broken(folder, path, address, pages)
            if why:
                found.append(f"{path.relative_to(folder)}: {address} ({why})")
    return found, followed, outside


def _why_broken(folder: Path, path: Path, address: str, pages: dict[Path, Page]) -> str | None:
    place, anchor = urldefrag(address)
    place = unquote(place.split("?")[0])
    target = (path.parent / place).resolve() if place else path
    if not target.is_relative_to(folder):
        return "outside the site"
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    if anchor and target in pages and unquote(anchor) not in pages[target].ids:
        return "nothing on that page has this id"
    return None


def main(folder: str = "docs/_build/html") -> int:
    if not list(Path(folder).glob("*.html")):
        print(f"expected a built site with pages in {folder}, found none: run make docs")
        return 2
    found, followed, outside = broken(Path(folder))
    print("\n".join([*found, f"{followed} links inside the site, {len(found)} broken; {outside} lead elsewhere"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
