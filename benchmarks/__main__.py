"""Run the benchmarks: ``python -m benchmarks [--threads N] [NAME ...]``; prints tables and writes them as JSON.

``python -m benchmarks --write`` puts what is on file into docs/speed.md and README.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.timing import Row, machine, reached

HERE = Path(__file__).parent
FOUND = HERE / "results"
TORCH_ONLY = FOUND / "torch_only"  # what was measured without the compiled form
RESULTS = TORCH_ONLY if os.environ.get("EXCORA_COMPILED") == "0" else FOUND
GRID = "ECAPool / plain "  # how the rows of the grid begin
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--write", action="store_true", help="write the results on file to docs/speed.md and README.md")
    arguments = parser.parse_args()
    if arguments.write:
        write()
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


def write() -> None:
    """Put the results on file into the page and the sentence that show them."""
    for name, put in (("docs/speed.md", in_page), ("README.md", in_readme)):
        file = HERE.parent / name
        file.write_text(put(file.read_text()))


def in_page(text: str) -> str:
    """docs/speed.md with the results on file: the grid, a line for everything else, the grid without numba."""
    rows, torch_only = on_file(FOUND), on_file(TORCH_ONLY)
    for lines in (grid(rows), others(rows), grid(torch_only)):
        begin = re.escape(lines[0].split(" | ")[0])
        # The second grid is the one below the heading of the section on torch alone.
        after = text.index("## Without numba") if lines == grid(torch_only) else 0
        shown = re.compile(rf"^{begin} \|.*\n(?:\|.*\n)+", re.M)
        text = text[:after] + shown.sub(lambda _, new=lines: "\n".join(new) + "\n", text[after:], count=1)
    return text


def in_readme(text: str) -> str:
    """README.md with the least and the largest ratio of each use on file."""
    rows = [row for row in on_file(FOUND) if row["name"].startswith(GRID) and not row["name"].endswith("compiled")]
    for use, words in (("training", "training takes "), ("frozen", "frozen features "), ("inference", "inference ")):
        ratios = [row["ratio"] for row in rows if f"), {use}, " in row["name"]]
        text = re.sub(rf"{words}[\d.]+-[\d.]+", f"{words}{min(ratios):.1f}-{max(ratios):.1f}", text, count=1)
    return text


def on_file(folder: Path) -> list[Row]:
    """The rows of all benchmarks of a folder."""
    return [row for file in sorted(folder.glob("*.json")) for row in json.loads(file.read_text())["rows"]]


def others(rows: list[Row]) -> list[str]:
    """A line for everything but the grid."""
    lines = ["| ours / other | ratio | target |", "|---|---|---|"]
    for row in rows:
        if not row["name"].startswith(GRID):
            sign = "≥" if row["at_least"] else "≤"
            missed = "" if reached(row) else " (missed)"
            lines.append(f"| {row['name']} | {row['ratio']:.2f} | {sign} {row['target']}{missed} |")
    return lines


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
