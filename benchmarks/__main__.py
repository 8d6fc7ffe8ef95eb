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
# What was measured without the compiled form stands apart: docs/speed.md shows what `make bench` finds.
RESULTS = HERE / "results" / ("torch_only" if os.environ.get("EXCORA_COMPILED") == "0" else "")
GRID = "ECAPool / plain "  # how the rows of the grid begin
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--table", action="store_true", help="print the results on file as the tables of docs/speed.md")
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
    """The results on file as two Markdown tables: the grid of the pools, and a line for everything else."""
    rows: list[Row] = []
    for file in sorted(RESULTS.glob("*.json")):
        rows += json.loads(file.read_text())["rows"]
    lines = ["| ours / other | ratio | target |", "|---|---|---|"]
    for row in rows:
        if not row["name"].startswith(GRID):
            sign = "≥" if row["at_least"] else "≤"
            missed = "" if reached(row) else " (missed)"
            lines.append(f"| {row['name']} | {row['ratio']:.2f} | {sign} {row['target']}{missed} |")
    return "\n".join([*grid(rows), "", *lines])


def grid(rows: list[Row]) -> list[str]:
    """ECAPool against plain code: a line a shape and use, a column a way to run it, "plain / masked" in a cell."""
    cells: dict[str, dict[str, dict[bool, str]]] = {}
    for row in sorted(rows, key=lambda row: row["name"].endswith("compiled")):
        if row["name"].startswith(GRID):
            shape, _, rest = row["name"].removeprefix(GRID).partition("), ")
            use, *way = rest.split(", ")
            masked = "mask" in way
            column = cells.setdefault(f"{shape[1:]} | {use}", {}).setdefault(
                ", ".join(w for w in way if w != "mask"), {}
            )
            column[masked] = f"{row['ratio']:.2f}" if reached(row) else f"**{row['ratio']:.2f}**"
    ways = list(dict.fromkeys(way for line in cells.values() for way in line))
    lines = [f"| bags, elements, dim | use | {' | '.join(ways)} |", "|---" * (len(ways) + 2) + "|"]
    for name, line in cells.items():
        found = (" / ".join(line[way][masked] for masked in (False, True)) if way in line else "" for way in ways)
        lines.append(f"| {name} | {' | '.join(found)} |")
    return lines


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
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.json"
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps({"machine": before, "load_after": os.getloadavg(), "rows": rows}, indent=1) + "\n")
    os.replace(temporary, file)


if __name__ == "__main__":
    main()
