"""Fetches the data of a study that can be told by its checksum: ``python -m excora_studies.download DIR``.

Of the files of ``tabular`` that is Appliances, an original of the UCI repository; Superconductivity and Online News are
used in rebuilt or partial form, whose originals have no checksum here.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

from excora.errors import ExcoraError
from excora.storage import write_atomically

TIMEOUT, LIMIT = 60.0, 1 << 28  # seconds; bytes of an archive or a file


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
    try:
        with urllib.request.urlopen(source.url, timeout=TIMEOUT) as answer:
            archive = answer.read(LIMIT)
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            if opened.getinfo(source.member).file_size > LIMIT:
                raise ExcoraError(f"{source.member} in {source.url} is larger than {LIMIT} bytes")
            content = opened.read(source.member)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ExcoraError(f"cannot fetch {source.member} from {source.url}: {error}; get it by hand") from error
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise ExcoraError(f"{source.url} has another {source.member}: SHA-256 {found}, expected {source.sha256}")
    write_atomically(target, lzma.compress(content))
    return target


def main(arguments: list[str]) -> int:
    """Everything that can be fetched, into the folder named."""
    if len(arguments) != 1:
        print("usage: python -m excora_studies.download DIR", file=sys.stderr)
        return 2
    for name in ORIGINALS:
        print(fetch(name, Path(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
