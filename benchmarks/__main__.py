"""Run the benchmarks: ``python -m benchmarks [--threads N] [NAME ...]``; prints tables and writes them as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.timing import Row, machine, reached

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--table", action="store_true", help="print the results on file as the table of README.md")
    arguments = parser.parse_args()
    if arguments.table:
        print(table())
        return
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    names = arguments.names or NAMES
    if len(names) == 1:
        torch.set_num_threads(arguments.threads)
        report(names[0])
        return
    for name in names:  # a process each: what one leaves in the allocator must not favour the next
        subprocess.run([sys.executable, "-m", "benchmarks", name, "--threads", str(arguments.threads)], check=True)


def table() -> str:
    """The results on file as a Markdown table."""
    lines = ["| ours / other | ratio | target |", "|---|---|---|"]
    for file in sorted((HERE / "results").glob("*.json")):
        for row in json.loads(file.read_text())["rows"]:
            sign = "≥" if row["at_least"] else "≤"
            missed = "" if reached(row) else " (missed)"
            lines.append(f"| {row['name']} | {row['ratio']:.2f} | {sign} {row['target']}{missed} |")
    return "\n".join(lines)


def report(name: str) -> None:
    """Run one benchmark, print its rows, and write ``results/NAME.json`` (first a temporary file, then a rename)."""
    before = machine()
    print(f"{name}: {before}", flush=True)
    rows: list[Row] = importlib.import_module(f"benchmarks.bench_{name}").run()
    for row in rows:
        sign = ">=" if row["at_least"] else "<="
        verdict = "reached" if reached(row) else "MISSED"
        figures = f"{row['ours']:9.2f} {row['other']:9.2f}  ratio {row['ratio']:5.2f}  target {sign} {row['target']}"
        print(f"  {row['name']:58s} {figures}  {verdict}", flush=True)
    (HERE / "results").mkdir(exist_ok=True)
    file = HERE / "results" / f"{name}.json"
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps({"machine": before, "load_after": os.getloadavg(), "rows": rows}, indent=1) + "\n")
    os.replace(temporary, file)


if __name__ == "__main__":
    main()
