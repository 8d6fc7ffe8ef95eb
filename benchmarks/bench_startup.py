"""The help against ``python -c "import torch"``: the command line answers before torch could be loaded.

Of the commands ``fit`` has the longest, with options that the models declare. CPU time: what else runs does not count.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from benchmarks.timing import Row

ROUNDS = 7


def _milliseconds(*arguments: str) -> float:
    """CPU time of a Python process."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = os.times()
    return 1e3 * (after.children_user + after.children_system - before.children_user - before.children_system)


def run() -> list[Row]:
    lines = {"excora --help": ("--help",), "excora fit --help": ("fit", "--help")}
    found: dict[str, list[float]] = {name: [] for name in (*lines, "torch")}
    for _ in range(ROUNDS):
        found["torch"].append(_milliseconds("-c", "import torch"))
        for name, words in lines.items():
            found[name].append(_milliseconds("-m", "excora.cli", *words))
    torch = statistics.median(found["torch"])
    rows = []
    for name, target in zip(lines, (0.6, 1.0), strict=True):
        ours = statistics.median(found[name])
        rows += [
            Row(name=f"{name}, CPU seconds / 1", target=target, at_least=False, ratio=ours / 1e3, ours=ours, other=1e3),
            Row(name=f"{name} / import torch", target=0.5, at_least=False, ratio=ours / torch, ours=ours, other=torch),
        ]
    return rows
