"""``excora --help`` against ``python -c "import torch"``: the command line answers before torch could be loaded."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import Row, compare


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def run() -> list[Row]:
    ours, other = compare(lambda: _run("-m", "excora.cli", "--help"), lambda: _run("-c", "import torch"), rounds=7)
    seconds = Row(name="excora --help, seconds / 1", target=0.6, at_least=False, ratio=ours / 1e3, ours=ours, other=1e3)
    ratio = Row(
        name="excora --help / import torch", target=0.5, at_least=False, ratio=ours / other, ours=ours, other=other
    )
    return [seconds, ratio]
