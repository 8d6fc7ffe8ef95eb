"""Study ``grid``: where does extrapolation help, where does it cost? Twelve settings of the signal, fixed in advance.

kappa in {0.5, 1, 2} x (eta, nu) in {(0.2, 0.25), (0.6, 0.55), (1.1, 0.85), (2.0, 1.4)}. For kappa > eta the label lies
beyond the hull and extrapolation can help; for kappa <= eta softmax is already optimal and a pool must not do harm.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from excora.tasks.plateau import PlateauTask
from excora_studies import region
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table
from excora_studies.runner import Chunk, Report, Results
from excora_studies.synthetic import spread
from excora_studies.training import OURS, PAPER, SOFTMAX, Protocol, form
from excora_studies.tuning import TUNING_SEED, last_epochs, seed_chunks

KAPPAS = (0.5, 1.0, 2.0)
SIGNALS = ((0.2, 0.25), (0.6, 0.55), (1.1, 0.85), (2.0, 1.4))
TOLERANCE = 0.001


def tasks(seed: int) -> list[PlateauTask]:
    """The twelve settings, with directions of this seed."""
    return [PlateauTask(kappa=kappa, eta=eta, nu=nu, direction_seed=seed) for kappa in KAPPAS for eta, nu in SIGNALS]


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on; ``data`` is not used."""
    protocol = Protocol.quick(2) if preset == "quick" else Protocol(epochs=100)
    return {
        "kappa": list(KAPPAS),
        "eta, nu": [list(signal) for signal in SIGNALS],
        "seeds": list(range(seeds or (1 if preset == "quick" else 3))),
        "tuning_seed": TUNING_SEED,
        "ours": form(tasks(0)[0].dim),
        "protocol": dataclasses.asdict(protocol),
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """What is tuned first, then a chunk for each seed."""
    return seed_chunks(tasks, configuration)


def _row(setting: PlateauTask, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """PCC of every variant in one setting, and what ours gains over softmax and over the paper's form."""

    def values(name: str) -> list[float]:
        return [seed["models"][name]["pcc"] for seed in seeds]

    def difference(base: str) -> tuple[float, float]:
        return spread([a - b for a, b in zip(values(OURS), values(base), strict=True)])

    row: dict[str, Any] = {"kappa": setting.kappa, "eta": setting.eta, "nu": setting.nu}
    row |= {name: spread(values(name))[0] for name in seeds[0]["models"]}
    (row["ours - softmax"], row["ours - softmax sd"]), (row["ours - paper"], row["ours - paper sd"]) = map(
        difference, (SOFTMAX, PAPER)
    )
    row |= {"gamma": spread([seed["models"][OURS]["gamma"] for seed in seeds])[0]}
    row |= {"softmax ceiling": setting.best_softmax_pcc, "ours ceiling": setting.attention_pcc(region.CAP)}
    row |= {"Bayes": setting.bayes_pcc, "paper's figure": "none given"}
    return row


def report(configuration: dict[str, Any], results: Results) -> Report:
    """The table of settings, and in which of them ours falls short of softmax or of the paper's form."""
    per_seed = [results[f"seed {seed}"] for seed in configuration["seeds"]]
    settings = tasks(0)
    rows = [_row(setting, [groups[index] for groups in per_seed]) for index, setting in enumerate(settings)]
    worst = {base: min(row[f"ours - {base}"] for row in rows) for base in ("softmax", "paper")}
    short = [
        {key: row[key] for key in ("kappa", "eta", "nu", "ours - softmax", "ours - paper")}
        for row in rows
        if min(row["ours - softmax"], row["ours - paper"]) < -TOLERANCE
    ]
    names = list(per_seed[0][0]["models"])
    ablation = {}
    for name in names:
        apart = [[g["models"][name]["pcc"] - g["models"][OURS]["pcc"] for g in groups] for groups in per_seed]
        by_setting = [spread(list(column)) for column in zip(*apart, strict=True)]
        ablation[name] = {"mean": spread([mean for mean, _ in by_setting])[0]}
        ablation[name] |= {"worst": min(mean for mean, _ in by_setting), "best": max(mean for mean, _ in by_setting)}
        ablation[name] |= {"sd over seeds": spread([spread(seed)[0] for seed in apart])[1]}
    edge = last_epochs(per_seed, Protocol(**configuration["protocol"]))
    summary = {"tuning": results["tuning"], "best in the last epoch": edge, "worst": worst}
    summary |= {"short": short, "ablation": ablation}
    notes = [
        f"smallest difference: ours - softmax {worst['softmax']:+.5f}, ours - paper {worst['paper']:+.5f}; "
        f"{len(short)} settings more than {TOLERANCE} below either",
        f"paper form tuned once on validation: t_min {results['tuning']['t_min']}, beta {results['tuning']['beta']}",
    ]
    columns = ["kappa", "eta", "nu", SOFTMAX, PAPER, OURS, "ours - softmax", "ours - paper"]
    columns += ["softmax ceiling", "Bayes", "paper's figure"]
    return Report(rows, summary, {"grid": _figure(rows)}, notes, columns)


def _figure(rows: list[dict[str, Any]]) -> Figure:
    panels = []
    for kappa in KAPPAS:
        own = [row for row in rows if row["kappa"] == kappa]
        x = [row["eta"] for row in own]
        lines = [
            Line(label=name, x=x, y=[row[name] for row in own], markers=True) for name in ("mean", SOFTMAX, PAPER, OURS)
        ]
        lines.append(Line(label="softmax, closed form", x=x, y=[row["softmax ceiling"] for row in own], dashed=True))
        lines.append(Line(label="Bayes", x=x, y=[row["Bayes"] for row in own], dashed=True))
        panels.append(Panel(title=f"kappa = {kappa}", x="eta", y="test PCC", lines=lines))
    return Figure(title="Where extrapolation helps: kappa above eta", panels=panels, columns=3)


def _block(contents: Contents) -> str:
    """The twelve settings."""
    rows = [
        [
            *(f"{row[key]:g}" for key in ("kappa", "eta", "nu")),
            *(number(row[key], 4) for key in ("mean", "softmax", "ECA (paper)", "ECA (ours)")),
            f"{row['ours - softmax']:+.5f} ± {row['ours - softmax sd']:.5f}",
            f"{row['ours - paper']:+.5f} ± {row['ours - paper sd']:.5f}",
            *(number(row[key], 4) for key in ("softmax ceiling", "ours ceiling", "Bayes")),
        ]
        for row in contents["grid"]["table"]
    ]
    header = ("κ", "η", "ν", "mean", "softmax", "ECA (paper)", "ECA (ours)", "ours − softmax", "ours − paper")
    return table((*header, "best softmax", "best γ ≤ 4", "Bayes"), rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "grid": _block,
}
