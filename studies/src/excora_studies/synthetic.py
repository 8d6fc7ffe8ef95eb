"""Study ``synthetic`` (Fig 5): mean, softmax, ECA and its ablations at the paper's four homogeneity levels.

The signal constants that the paper leaves open follow one rule for all levels, fixed from the closed forms before any
training: eta : nu = 0.6 : 0.55, scaled to the wanted sigma~, and **kappa = 3 eta**. That is the paper's own label
y = w*.(mu + gamma* eta w*) with gamma* = 3, with the strength varying by bag. One configuration trains all models.
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

from excora.tasks.plateau import LEVELS, PlateauTask
from excora_studies import region
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table, with_spread
from excora_studies.runner import Chunk, Report, Results
from excora_studies.training import OURS, PAPER, SOFTMAX, Protocol, form
from excora_studies.tuning import TUNING_SEED, last_epochs, seed_chunks

STRETCH = 3.0  # kappa / eta
MARKER = 0.55 / 0.6  # nu / eta
SHOWN = ("mean", SOFTMAX, PAPER, OURS)  # with curves, as in Fig 5


def tasks(seed: int) -> list[PlateauTask]:
    """The four levels, with directions of this seed."""
    return [
        dataclasses.replace(region.task_at(level, stretch=STRETCH, marker=MARKER), direction_seed=seed)
        for level in LEVELS
    ]


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on; ``data`` is not used."""
    protocol = Protocol.quick(2) if preset == "quick" else Protocol(epochs=150)
    return {
        "rule": f"kappa = {STRETCH} eta, nu = {MARKER:.4f} eta",
        "levels": list(LEVELS),
        "seeds": list(range(seeds or (2 if preset == "quick" else 5))),
        "tuning_seed": TUNING_SEED,
        "ours": form(tasks(0)[0].dim),
        "protocol": dataclasses.asdict(protocol),
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """What is tuned first, then a chunk for each seed."""
    return seed_chunks(tasks, configuration, curves=SHOWN)


def spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation over seeds (0 for one)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _rows(groups: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each level and variant; ``groups[level]`` are that level's seeds."""
    rows = []
    for index, (level, seeds) in enumerate(zip(LEVELS, groups, strict=True)):
        for name in seeds[0]["models"]:
            own = [seed["models"][name] for seed in seeds]
            base = [seed["models"][SOFTMAX] for seed in seeds]
            gain = spread([100.0 * (a["pcc"] / b["pcc"] - 1.0) for a, b in zip(own, base, strict=True)])
            less = spread([100.0 * (1.0 - a["mse"] / b["mse"]) for a, b in zip(own, base, strict=True)])
            pcc, mse = spread([a["pcc"] for a in own]), spread([a["mse"] for a in own])
            row = {"sigma~": f"{level:.2f}", "variant": name, "PCC": pcc[0], "PCC sd": pcc[1]}
            row |= {"MSE": mse[0], "MSE sd": mse[1], "gain %": gain[0], "gain % sd": gain[1]}
            eca = name in (OURS, PAPER)
            row |= {"paper gain %": region.PAPER_GAIN[index] if eca else None}
            row |= {"MSE less %": less[0], "MSE less % sd": less[1]}
            row |= {"paper less %": region.PAPER_REDUCTION[index] if eca else None}
            row |= {"gamma": statistics.fmean([a.get("gamma", 0.0) for a in own]) if "gamma" in own[0] else None}
            row |= {"rate": own[0]["rate"], "epoch": statistics.median([a["epoch"] for a in own])}
            rows.append(row)
    return rows


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Fig 5, the ablation, and the region in which the paper's gains are possible."""
    per_seed = [results[f"seed {seed}"] for seed in configuration["seeds"]]
    groups = [[groups[index] for groups in per_seed] for index in range(len(LEVELS))]
    rows = _rows(groups)
    ours = [row for row in rows if row["variant"] == OURS]
    reached = [row["gain %"] >= row["paper gain %"] and row["MSE less %"] >= row["paper less %"] for row in ours]
    ceilings = [
        {
            "sigma~": level,
            **{key: getattr(task, key) for key in ("eta", "nu", "kappa", "mean_pcc", "best_softmax_pcc", "bayes_pcc")},
            "best_convex_pcc": task.best_convex_pcc(bags=20_000),
            "ours_pcc": task.attention_pcc(region.CAP),
        }
        for level, task in zip(LEVELS, tasks(0), strict=True)
    ]
    summary = {
        "tuning": results["tuning"],
        "best in the last epoch": last_epochs(per_seed, Protocol(**configuration["protocol"])),
        "reached": reached,
        "ceilings": ceilings,
        "region": region.region((0.5, MARKER, 1.25)),
    }
    notes = [
        f"paper's gains reached by {OURS} at {sum(reached)} of {len(reached)} levels; rule: {configuration['rule']}",
        f"paper form tuned once on validation: t_min {results['tuning']['t_min']}, beta {results['tuning']['beta']}",
    ]
    figures = {
        "curves": _curves(configuration, groups, ceilings),
        "ablation": _ablation(rows),
        "region": region.figure(),
    }
    columns = ("sigma~", "variant", "PCC", "gain %", "paper gain %", "MSE less %", "paper less %")
    return Report(rows, summary, figures, notes, columns)


def _curves(
    configuration: dict[str, Any], groups: list[list[dict[str, Any]]], ceilings: list[dict[str, Any]]
) -> Figure:
    epochs = Protocol(**configuration["protocol"]).evaluations()
    panels = []
    for metric in ("pcc", "mse"):
        for seeds, ceiling in zip(groups, ceilings, strict=True):
            lines = []
            for name in SHOWN:
                for part in ("validation", "train"):
                    runs = [seed["models"][name]["curves"][f"{part}_{metric}"] for seed in seeds]
                    middle, low, high = ([f(x) for x in zip(*runs, strict=True)] for f in (statistics.fmean, min, max))
                    label = name if part == "validation" else f"{name} | training"
                    lines.append(Line(label=label, x=epochs, y=middle, low=low, high=high, dashed=part == "train"))
            panels.append(
                Panel(
                    title=f"sigma~ = {ceiling['sigma~']:.2f}",
                    x="epoch",
                    y=metric.upper(),
                    lines=lines,
                    log_x=True,
                    log_y=metric == "mse",
                    level=ceiling["best_softmax_pcc"] if metric == "pcc" else None,
                )
            )
    title = "PCC and MSE while training, range over seeds shaded (dotted: best PCC of softmax attention, closed form)"
    return Figure(title=title, panels=panels, columns=len(LEVELS))


def _ablation(rows: list[dict[str, Any]]) -> Figure:
    names = list(dict.fromkeys(row["variant"] for row in rows))
    panels = []
    for title, key, sd in (
        ("PCC gain over softmax, %", "gain %", "gain % sd"),
        ("MSE reduction, %", "MSE less %", "MSE less % sd"),
    ):
        lines = []
        for level in LEVELS:
            own = [row for row in rows if row["sigma~"] == f"{level:.2f}" and row["variant"] != "mean"]
            y = [row[key] for row in own]
            low = [row[key] - row[sd] for row in own]
            high = [row[key] + row[sd] for row in own]
            x = [float(names.index(row["variant"])) for row in own]
            lines.append(Line(label=f"sigma~ = {level:.2f}", x=x, y=y, low=low, high=high, markers=True))
        ticks = {float(names.index(name)): name for name in names if name != "mean"}
        panels.append(Panel(title=title, x="", y="%", lines=lines, ticks=ticks, level=0.0))
    return Figure(title="What each part contributes (shaded: standard deviation over seeds)", panels=panels, columns=2)


def _levels_block(contents: Contents) -> str:
    """Levels, with the paper's gains beside ours."""
    rows = [
        [
            row["sigma~"],
            row["variant"],
            with_spread(row, "PCC", 4),
            with_spread(row, "gain %", 2),
            number(row["paper gain %"], 2),
            with_spread(row, "MSE less %", 1),
            number(row["paper less %"], 1),
            f"{row['rate']:g}",
            number(row["epoch"], 0),
        ]
        for row in contents["synthetic"]["table"]
        if row["variant"] in ("mean", "softmax", "ECA (paper)", "ECA (ours)")
    ]
    header = ("σ~", "variant", "test PCC", "gain over softmax, %", "paper", "MSE reduction, %", "paper")
    return table((*header, "learning rate", "best epoch, median"), rows)


def _ceilings_block(contents: Contents) -> str:
    """Constants of the four tasks and their closed forms."""
    keys = ("eta", "nu", "kappa", "mean_pcc", "best_softmax_pcc", "best_convex_pcc", "ours_pcc", "bayes_pcc")
    rows = [
        [f"{level['sigma~']:.2f}", *(number(level[key], 3 if i < 3 else 4) for i, key in enumerate(keys))]
        for level in contents["synthetic"]["summary"]["ceilings"]
    ]
    return table(("σ~", "η", "ν", "κ", "mean", "softmax", "any convex weights", "γ ≤ 4", "Bayes"), rows)


def _ablation_block(contents: Contents) -> str:
    """PCC of each variant at each level, and its difference from ours on the grid."""
    rows = contents["synthetic"]["table"]
    levels = list(dict.fromkeys(row["sigma~"] for row in rows))
    cells = {(row["variant"], row["sigma~"]): with_spread(row, "PCC", 4) for row in rows}
    grid = contents["grid"]["summary"]["ablation"]
    body = [
        [
            name,
            *(cells[name, level] for level in levels),
            f"{one['mean']:+.4f} ± {one['sd over seeds']:.4f}",
            f"{one['worst']:+.5f} … {one['best']:+.5f}",
        ]
        for name, one in grid.items()
    ]
    header = ("variant", *(f"σ~ = {level}" for level in levels), "grid: PCC − ours", "over its settings")
    return table(header, body)


def _summary_block(contents: Contents) -> str:
    """The levels of ``synthetic`` in one line each, for README.md."""
    by_name: dict[str, dict[str, Any]] = {}
    for row in contents["synthetic"]["table"]:
        by_name.setdefault(row["sigma~"], {})[row["variant"]] = row
    rows = []
    for level, found in by_name.items():
        ours = found["ECA (ours)"]
        cells = [with_spread(found[name], "PCC", 3) for name in ("softmax", "ECA (paper)", "ECA (ours)")]
        rows.append([level, *cells, f"+{ours['gain %']:.1f} %", f"+{ours['paper gain %']:.2f} %"])
    names = (
        "σ~",
        "softmax, test PCC",
        "ECA, the paper's form",
        "ECA, ours",
        "gain of ours over softmax",
        "the paper's gain",
    )
    return table(names, rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "synthetic": _levels_block,
    "ceilings": _ceilings_block,
    "ablation": _ablation_block,
    "region": region.block,
    "summary": _summary_block,
}
