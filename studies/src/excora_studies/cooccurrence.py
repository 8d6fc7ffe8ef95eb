"""Study ``cooccurrence``: do categorical tokens that start from what occurs together need fewer epochs?

Automobile (UCI, 201 rows, 10 categorical columns, the make among them) and the FT-Transformer and NPT, with tokens that
start by chance and from co-occurrence, all else equal. The level is 95 % of the best validation PCC of the start by
chance; counted are the epochs until it is reached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from excora_studies.companion_runs import run
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.small_tables import find_folder

TABLE, FILE = "Automobile", "imports-85.data"
MODELS, STARTS = ("ft-transformer", "npt"), ("uniform", "cooccurrence")


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {"seeds": list(range(seeds or (1 if quick else 3))), "epochs": 2 if quick else 40, "dim": 16}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk a model, start and seed."""
    folder = find_folder(data, [FILE])
    options = {"epochs": configuration["epochs"], "dim": configuration["dim"], "start": "none", "patience": 1000}

    def one(model: str, start: str, seed: int) -> Chunk:
        def compute(_: Results, tick: Tick) -> Any:
            found = run(TABLE, folder, model, seed, init=start, **options)
            tick()
            return found

        return Chunk(f"{model}, {start}, seed {seed}", 1, compute)

    return [one(m, s, seed) for m in MODELS for s in STARTS for seed in configuration["seeds"]]


def reached(curve: list[float], level: float) -> int:
    """The first epoch, from 1, with this PCC; one more than there are if none has."""
    return next((k for k, pcc in enumerate(curve, 1) if pcc >= level), len(curve) + 1)


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Epochs to the level, and test PCC."""
    rows, panels, seeds = [], [], configuration["seeds"]
    for model in MODELS:
        curves = {s: [results[f"{model}, {s}, seed {seed}"]["curve"] for seed in seeds] for s in STARTS}
        levels = [0.95 * max(curve) for curve in curves["uniform"]]
        for start in STARTS:
            epochs = [reached(c, level) for c, level in zip(curves[start], levels, strict=True)]
            test = [results[f"{model}, {start}, seed {seed}"]["test"] for seed in seeds]
            rows.append({
                "model": model, "start": start, "epochs": float(np.mean(epochs)), "epochs sd": float(np.std(epochs)),
                "test PCC": float(np.mean(test)), "test PCC sd": float(np.std(test)),
            })  # fmt: skip
        x = list(range(1, configuration["epochs"] + 1))
        lines = [Line(label=s, x=x, y=np.mean(curves[s], 0).tolist()) for s in STARTS]
        panels.append(Panel(title=f"{model}, mean of {len(seeds)} seeds", x="epoch", y="validation PCC", lines=lines))
    figure = Figure(title="Tokens that start from what occurs together", panels=panels, columns=2)
    return Report(rows, {}, {"cooccurrence": figure}, [])


def _block(contents: Contents) -> str:
    rows = [
        [
            r["model"],
            r["start"],
            f"{r['epochs']:.1f} ± {r['epochs sd']:.1f}",
            f"{r['test PCC']:.3f} ± {r['test PCC sd']:.3f}",
        ]
        for r in contents["cooccurrence"]["table"]
    ]
    return table(("model", "start", "epochs to 95 % of the best validation PCC", "test PCC"), rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {"cooccurrence": _block}
