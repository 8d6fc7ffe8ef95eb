"""Study ``depth``: how much tiny attention networks mix two halves of their inputs, exactly, and what width would pay.

Separation ranks over a finite field (:mod:`excora.theory.depth`), beside the bound (d + H)^((3^L - 1)/2); and on which
side of log_3(width) architectures of use lie.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from excora.theory.depth import depth_threshold, log_rank_bound, separation_rank
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

#: (width, heads, depth)
NETS = ((2, 1, 1), (4, 2, 1), (6, 2, 1), (6, 1, 1), (1, 1, 2), (2, 1, 2), (2, 2, 2))
WIDTHS = (8, 16, 32, 64, 128, 192, 256, 512, 1024, 4096)
KNOWN = {"ft-transformer": (64, 2), "npt": (16, 4), "ViT-B": (768, 12), "GPT-3": (12_288, 96)}


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    return {"seed": 0, "nets": [list(net) for net in (NETS[:2] if preset == "quick" else NETS)]}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a network."""

    def one(width: int, heads: int, depth: int) -> Chunk:
        def compute(_: Results, tick: Tick) -> int:
            found = separation_rank(width=width, heads=heads, depth=depth, seed=configuration["seed"])
            tick()
            return found

        return Chunk(f"{width}, {heads}, {depth}", 1, compute)

    return [one(*net) for net in configuration["nets"]]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Ranks and bounds."""
    rows = [
        {
            "depth": d, "width": w, "heads": h, "separation rank": results[f"{w}, {h}, {d}"],
            "bound": round((w + h) ** ((3**d - 1) // 2)),
        }
        for w, h, d in configuration["nets"]
    ]  # fmt: skip
    names = [f"L={r['depth']} d={r['width']} H={r['heads']}" for r in rows]
    x = [float(k) for k in range(len(rows))]
    ranks = [
        Line(label=key, x=x, y=[r[key] for r in rows], markers=True, joined=False)
        for key in ("separation rank", "bound")
    ]
    first = Panel(
        title="tiny networks, exactly", x="", y="rank", lines=ranks, log_y=True, ticks=dict(zip(x, names, strict=True))
    )
    side = [Line(label="log_3(width)", x=WIDTHS, y=[depth_threshold(w) for w in WIDTHS])]
    side += [Line(label=name, x=[w], y=[float(d)], markers=True) for name, (w, d) in KNOWN.items()]
    second = Panel(title="which side of the threshold", x="width", y="layers", lines=side, log_x=True, log_y=True)
    figure = Figure(title="What depth buys attention", panels=[first, second], columns=2, size=(6.0, 3.6))
    growth = {str(d): log_rank_bound(width=64, heads=4, depth=d) for d in range(1, 8)}
    return Report(rows, {"bound of log_3 rank, width 64": growth}, {"depth": figure}, [])


def _block(contents: Contents) -> str:
    keys = ("depth", "width", "heads", "separation rank", "bound")
    return table(keys, [[str(row[key]) for key in keys] for row in contents["depth"]["table"]])


#: For the pages: what stands between the marks of that name.
BLOCKS = {"depth": _block}
