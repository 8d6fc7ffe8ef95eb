"""Defaults of recipes that follow the number of training rows."""

from __future__ import annotations

import math

from excora.options import ByRows


def _batch(rows: int, least: int) -> int:
    return min(max(2 ** max(round(math.log2(max(rows, 1) / 32)), 0), least), 256)


def batches(least: int) -> ByRows:
    """A batch of the power of two nearest to rows / 32, within ``least`` and 256.

    >>> [batches(64)(rows) for rows in (100, 4000, 100_000)]
    [64, 128, 256]
    """
    return ByRows(f"rows / 32 from {least} to 256", lambda rows: _batch(rows, least))


def epochs(least: int, steps: int, most: int) -> ByRows:
    """As many as make ``steps`` steps of batches of at least ``least``, within 15 and ``most``.

    >>> [epochs(32, 800, 60)(rows) for rows in (100, 1000, 100_000)]
    [60, 25, 15]
    """
    return ByRows(
        f"15 to {most} for {steps} steps",
        lambda rows: min(max(math.ceil(steps / math.ceil(max(rows, 1) / _batch(rows, least))), 15), most),
    )
