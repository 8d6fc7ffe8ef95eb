"""Fetches the data of a study that can be told by its checksum: ``python -m excora_studies.download DIR``.

Of the files of ``tabular`` that is Appliances, an original of the UCI repository; Superconductivity and Online News are
used in rebuilt or partial form, whose originals have no checksum here.
"""

from __future__ import annotations

import lzma
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pooch

from excora.errors import ExcoraError
from excora.storage import write_atomically

TIMEOUT = 60.0  # seconds without an answer


class Original(NamedTuple):
    """An archive, the file in it, and the SHA-256 of that file."""

    url: str
    member: str
    sha256: str


ORIGINALS = {
    "energydata_complete.csv.xz": Original(
        "https://archive.ics.uci.edu/static/public/374/appliances+energy+prediction.zip",
        "energydata_complete.csv",
        "2820bf712ad0275cb18b85a05250926100d8e65ebb9f4d2d016ca91ea152a25d",
    ),
}


def fetch(name: str, folder: Path, *, original: Original | None = None) -> Path:
    """Download ``name`` into ``folder`` unless it is there; another content than expected is an error, nothing kept."""
    target, source = folder / name, original or ORIGINALS[name]
    if target.exists():
        return target
    with tempfile.TemporaryDirectory() as place:
        content = _download(source, place)
        # The file's own checksum, not the archive's: an archive may be packed anew.
        found = pooch.file_hash(content)
        if found != source.sha256:
            raise ExcoraError(f"{source.url} has another {source.member}: SHA-256 {found}, expected {source.sha256}")
        write_atomically(target, lzma.compress(content.read_bytes()))
    return target


def _download(source: Original, place: str) -> Path:
    """The member of the archive, in the folder ``place``."""
    try:
        found = pooch.retrieve(
            source.url,
            known_hash=None,
            fname="archive.zip",
            path=place,
            processor=pooch.Unzip(members=[source.member]),
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
        )
        if not found:
            raise ValueError("it is not in the archive")
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ExcoraError(f"cannot fetch {source.member} from {source.url}: {error}; get it by hand") from error
    return Path(found[0])


def main(arguments: list[str]) -> int:
    """Everything that can be fetched, into the folder named."""
    if len(arguments) != 1:
        print("usage: python -m excora_studies.download DIR", file=sys.stderr)
        return 2
    pooch.get_logger().setLevel("WARNING")  # it would advise to note the archive's checksum
    try:
        for name in ORIGINALS:
            print(fetch(name, Path(arguments[0])))
    except ExcoraError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
