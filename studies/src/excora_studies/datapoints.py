"""Study ``datapoints``: can attention between rows look a label up, and does it follow when the label is changed?

The task "lookup" (:mod:`excora.tasks.lookup`): labels are independent of the features and stand in a copy of each row.
A reader that attends between rows and columns in turn is trained on fresh tables; held-out tables, the same with new
labels in the copies, and a reader whose rows see only themselves, which must have no correlation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from excora.models.parts.datapoints import TableReader
from excora.tasks.lookup import LookupTask
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

SHOWN = {"held-out": "held-out labels", "new": "new labels of the copies", "old": "labels before the intervention"}
LOOKS = 10


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {
        "seeds": list(range(seeds or (1 if quick else 2))),
        "rows": 4 if quick else 16,
        "steps": 10 if quick else 1000,
        "tables": 4,
        "rate": 3e-3,
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a seed, and one of a reader of single rows."""

    def one(seed: int, alone: bool, steps: int) -> Chunk:
        key = "single rows" if alone else f"seed {seed}"
        return Chunk(key, steps, lambda _, tick: _train(configuration, seed, alone, steps, tick))

    steps = configuration["steps"]
    return [*(one(seed, False, steps) for seed in configuration["seeds"]), one(0, True, steps // 10)]


def _train(configuration: dict[str, Any], seed: int, alone: bool, steps: int, tick: Tick) -> dict[str, Any]:
    task = LookupTask(rows=configuration["rows"])
    seen = torch.eye(2 * task.rows, dtype=torch.bool).unsqueeze(0) if alone else None
    torch.manual_seed(seed)
    reader = TableReader(task.features)
    optimizer = torch.optim.Adam(reader.parameters(), lr=configuration["rate"])
    curve = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = configuration["rate"] * min(1.0, (step + 1) / 50, 2 * (steps - step) / steps)
        tables, y = task.tables(configuration["tables"], seed=10**6 * (seed + 1) + step)
        loss = (reader(tables, seen)[:, : task.rows] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        tick()
        if (step + 1) % max(steps // LOOKS, 1) == 0:
            curve.append({"step": step + 1} | _score(task, reader, seen))
    order = torch.randperm(2 * task.rows)
    tables, _ = task.tables(2, seed=5)
    with torch.no_grad():
        apart = float((reader(tables[:, order], seen) - reader(tables, seen)[:, order]).abs().max())
    return {"curve": curve, "equivariance": apart} | curve[-1]


@torch.no_grad()
def _score(task: LookupTask, reader: TableReader, seen: Tensor | None) -> dict[str, float]:
    """On tables that training never meets, before and after their copies got new labels."""
    tables, y = task.tables(128, seed=7)
    changed, new = task.intervened(tables, seed=8)
    before, after = (reader(t, seen)[:, : task.rows] for t in (tables, changed))

    def r(a: Tensor, b: Tensor) -> float:
        return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])

    return {"held-out": r(before, y), "new": r(after, new), "old": r(after, y)}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Correlations by reader."""
    keys = [*(f"seed {seed}" for seed in configuration["seeds"]), "single rows"]
    rows = [{"reader": key, **{name: results[key][name] for name in SHOWN}} for key in keys]
    lines = [
        Line(
            label=f"{words} | {key}",
            x=[c["step"] for c in results[key]["curve"]],
            y=[c[name] for c in results[key]["curve"]],
        )
        for key in keys[:-1]
        for name, words in SHOWN.items()
    ]
    panel = Panel(title="tables that training never meets", x="step", y="correlation with", lines=lines)
    figure = Figure(title="Attention between rows looks labels up", panels=[panel], columns=1)
    summary = {"equivariance": max(results[key]["equivariance"] for key in keys)}
    note = f"rows in another order: predictions differ by at most {summary['equivariance']:.1e}"
    return Report(rows, summary, {"datapoints": figure}, [note])


def _block(contents: Contents) -> str:
    rows = [[row["reader"], *(f"{row[name]:.3f}" for name in SHOWN)] for row in contents["datapoints"]["table"]]
    return table(("reader", *SHOWN.values()), rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {"datapoints": _block}
