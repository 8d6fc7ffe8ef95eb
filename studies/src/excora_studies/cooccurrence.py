"""Study ``cooccurrence``: do categorical tokens that start from what occurs together need fewer epochs?

Four tables (UCI) with categories, the FT-Transformer on all of them and NPT on one, with tokens that start by chance
and from co-occurrence, all else equal. The level is 95 % of the best validation PCC of the start by chance, of the same
seed; counted are the epochs until it is reached. The strength of the start was chosen on seeds 0 to 4 (1/2 out of 1/2
and 1); seeds 5 to 9 chose nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from excora_studies.companion_runs import run
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.small_tables import SETS, find_folder

#: Epochs of each table.
TABLES = {"Automobile": 40, "Servo": 40, "Solar Flare": 15, "Garment": 15}
#: Tables, number of seeds and share of the epochs of each model.
MODELS = {"ft-transformer": (tuple(TABLES), 10, 1.0), "npt": (("Automobile",), 5, 0.5)}
STARTS = ("uniform", "cooccurrence")
CHOSEN = 5  # seeds below chose


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {"seeds": list(range(seeds or (1 if quick else 10))), "epochs": 2 if quick else None, "dim": 16}


def _cases(configuration: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    """Model, table and seeds."""
    seeds = configuration["seeds"]
    return [(model, name, seeds[:most]) for model, (names, most, _) in MODELS.items() for name in names]


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk a model, table, start and seed."""
    folder = find_folder(data, [SETS[name].file for name in TABLES])

    def one(model: str, name: str, start: str, seed: int) -> Chunk:
        def compute(_: Results, tick: Tick) -> Any:
            epochs = configuration["epochs"] or round(MODELS[model][2] * TABLES[name])
            options = {"epochs": epochs, "dim": configuration["dim"], "start": "none", "patience": 1000}
            found = run(name, folder, model, seed, init=start, **options)
            tick()
            return found

        return Chunk(f"{model}, {name}, {start}, seed {seed}", 1, compute)

    cases = _cases(configuration)
    return [one(m, name, start, seed) for m, name, seeds in cases for seed in seeds for start in STARTS]


def reached(curve: list[float], level: float) -> int:
    """The first epoch, from 1, with this PCC; one more than there are if none has."""
    return next((k for k, pcc in enumerate(curve, 1) if pcc >= level), len(curve) + 1)


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Epochs to the level, their change seed by seed, and test PCC."""
    rows, panels, changes = [], [], {}
    for model, name, seeds in _cases(configuration):
        found = {s: [results[f"{model}, {name}, {s}, seed {seed}"] for seed in seeds] for s in STARTS}
        levels = [0.95 * max(one["curve"]) for one in found["uniform"]]
        epochs = {
            s: np.array([reached(one["curve"], level) for one, level in zip(found[s], levels, strict=True)])
            for s in STARTS
        }
        changes[f"{model}, {name}"] = np.log(epochs["cooccurrence"] / epochs["uniform"]).tolist()
        for s in STARTS:
            test = [one["test"] for one in found[s]]
            rows.append({
                "model": model, "table": name, "start": s, "seeds": len(seeds), "epochs": float(epochs[s].mean()),
                "epochs sd": float(epochs[s].std()), "test PCC": float(np.mean(test)),
                "test PCC sd": float(np.std(test)),
            })  # fmt: skip
        x = list(range(1, len(found["uniform"][0]["curve"]) + 1))
        lines = [Line(label=s, x=x, y=np.mean([one["curve"] for one in found[s]], 0).tolist()) for s in STARTS]
        panels.append(Panel(title=f"{model}, {name}", x="epoch", y="validation PCC", lines=lines))
    figure = Figure(title="Tokens that start from what occurs together", panels=panels, columns=3)
    return Report(rows, {"logs": changes, **_summary(changes)}, {"cooccurrence": figure}, [])


def _summary(changes: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Epochs by those of the start by chance, two ways of averaging and a 95 % interval, by part of the seeds."""
    found = {}
    for model in MODELS:
        every = [c for name, c in changes.items() if name.startswith(model)]
        for part, some in {"chosen": slice(CHOSEN), "confirmed": slice(CHOSEN, None)}.items():
            logs = np.concatenate([c[some] for c in every])
            if len(logs) > 1:
                reach = 1.96 * logs.std(ddof=1) / len(logs) ** 0.5
                low, mean, high = np.exp(logs.mean() + reach * np.array([-1.0, 0.0, 1.0])).tolist()
                plain = float(np.exp(logs).mean())
                one = {"geometric mean": mean, "low": low, "high": high, "mean": plain, "pairs": len(logs)}
                found[f"{model}, {part}"] = one
    return found


def _block(contents: Contents) -> str:
    rows = [
        [
            r["model"], r["table"], r["start"], f"{r['epochs']:.1f} ± {r['epochs sd']:.1f}",
            f"{r['test PCC']:.3f} ± {r['test PCC sd']:.3f}",
        ]
        for r in contents["cooccurrence"]["table"]
    ]  # fmt: skip
    return table(("model", "table", "start", "epochs to the level", "test PCC"), rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {"cooccurrence": _block}
