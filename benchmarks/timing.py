"""How every benchmark measures: both sides in one process, taken in turns, medians; load and threads are recorded."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import TypedDict

import torch


class Row(TypedDict):
    """One line of a benchmark: ``ratio`` = ours / other is to be at most ``target``, or at least with ``at_least``."""

    name: str
    target: float
    at_least: bool
    ratio: float
    ours: float  # milliseconds, unless the name says otherwise
    other: float


def compare(ours: Callable[[], object], other: Callable[[], object], *, rounds: int) -> tuple[float, float]:
    """Median milliseconds of two functions, called in turns so that a busy moment hits both."""
    ours(), other()
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        for function, times in ((ours, mine), (other, theirs)):
            start = time.perf_counter()
            function()
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(mine), statistics.median(theirs)


def row(
    name: str,
    target: float,
    ours: Callable[[], object],
    other: Callable[[], object],
    *,
    rounds: int = 15,
    at_least: bool = False,
) -> Row:
    """Measure both sides and form the ratio."""
    mine, theirs = compare(ours, other, rounds=rounds)
    return Row(name=name, target=target, at_least=at_least, ratio=mine / theirs, ours=mine, other=theirs)


def reached(row: Row) -> bool:
    """Whether the target is met."""
    return row["ratio"] >= row["target"] if row["at_least"] else row["ratio"] <= row["target"]


def peak_extra_memory(script: str) -> float:
    """MB by which ``main()``, defined by ``script``, raises the peak of a fresh process above where it stood."""
    # VmHWM, not ru_maxrss: the latter is inherited from the parent process.
    tail = """
    def peak():
        return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
    before = peak()
    main()
    print(peak() - before)
    """
    code = textwrap.dedent(script) + textwrap.dedent(tail)
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def machine() -> dict[str, object]:
    """What a reader needs to judge a figure."""
    return {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "torch": torch.__version__,
    }
