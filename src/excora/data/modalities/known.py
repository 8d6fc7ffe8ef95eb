"""Which file it is: checksums of the published ones, and what the widths say of any other.

Files of several kinds circulate as "MOSI": text of 300 (GloVe) or 768 (BERT) features, audio of 5 or 74 (COVAREP),
vision of 20, 35 or 47 (FACET), 2,183 or 2,199 clips. Results on one do not compare with results on another.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from excora.data.modalities.content import Frames

#: SHA-256 of files that results are published on.
KNOWN = {
    "78e0f8b5ef8ff71558e7307848fc1fa929ecb078203f565ab22b9daab2e02524": "MOSI as MMSA has it, unaligned_50.pkl",
    "d3994fd25681f9c7ad6e9c6596a6fe9b4beb85ff7d478ba978b124139002e5f9": "MOSI as MMSA has it, aligned_50.pkl",
}
#: Features that go by these widths.
WIDTHS = {
    "text": {300: "GloVe", 768: "BERT, base", 1024: "BERT, large", 384: "MiniLM"},
    "audio": {5: "5 of COVAREP's features", 33: "librosa", 73: "openSMILE", 74: "COVAREP"},
    "vision": {20: "20 of FACET's features", 35: "FACET 4.2", 47: "FACET 4.1", 709: "OpenFace"},
}
#: Clips in all of MOSI's variants.
CLIPS = {2199: "all of MOSI", 2183: "MOSI without 16 clips"}


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def described(name: str, frames: Frames) -> str:
    """A modality in words: steps, width, padding, and what features of this width usually are.

    >>> import numpy as np
    >>> from excora.data.bags.stores import ArrayBags
    >>> described("text", Frames(ArrayBags(np.ones((3, 768)), [1, 2]), 50, "right"))
    '768 numbers a step (BERT, base?), 1 to 2 of 50 steps, median 2, padded right'
    """
    lengths, width = frames.bags.lengths, frames.bags.width
    usual = f" ({WIDTHS[name][width]}?)" if width in WIDTHS[name] else ""
    middle = sorted(lengths.tolist())[len(lengths) // 2]
    padded = "" if frames.padding == "none" else f", padded {frames.padding}"
    steps = f"{lengths.min():,} to {lengths.max():,} of {frames.longest:,} steps, median {middle:,}"
    return f"{width:,} numbers a step{usual}, {steps}{padded}"


def identity(sha: str, clips: int) -> str:
    """The file's name, if its checksum is known, else what its size suggests."""
    if sha in KNOWN:
        return f"{KNOWN[sha]} (checksum known)"
    hint = f"; {clips:,} clips are {CLIPS[clips]}" if clips in CLIPS else ""
    return f"none of the files whose checksum is known: do not compare with results on another{hint}"
