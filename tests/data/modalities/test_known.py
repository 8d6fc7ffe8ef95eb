"""Which file it is."""

from __future__ import annotations

import numpy as np

from excora.data.bags import ArrayBags
from excora.data.modalities import Frames
from excora.data.modalities.known import KNOWN, checksum, described, identity


def test_checksums(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert checksum(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert all(len(sha) == 64 for sha in KNOWN)
    sha = next(iter(KNOWN))
    assert identity(sha, 5) == "MOSI as MMSA has it, unaligned_50.pkl (checksum known)"
    assert identity("x", 2183).endswith("2,183 clips are MOSI without 16 clips")
    assert identity("x", 7).startswith("none of the files whose checksum is known")


def test_widths_that_circulate_under_one_name():
    def told(name, width, padding="right"):
        return described(name, Frames(ArrayBags(np.ones((3, width)), [1, 2]), 7, padding))

    assert told("audio", 74).startswith("74 numbers a step (COVAREP?), 1 to 2 of 7 steps")
    assert told("vision", 47, "left").endswith("padded left")
    assert told("text", 300).startswith("300 numbers a step (GloVe?)")
    assert told("text", 11, "none") == "11 numbers a step, 1 to 2 of 7 steps, median 2"
