"""Study ``gradients`` (Fig 3, 4): the PCC/MSE gradient ratio, its bound and the spread of predictions over training.

On the training bags of the ``synthetic`` task, softmax attention. The story to check: training raises sigma_yhat
towards sigma_y, which starves the PCC gradient; the ratio stays below 1/(2 sqrt(sigma_y) sigma_yhat^1.5).
What the ratio falls to follows from its exact form sqrt(1-rho^2)/(2 sigma_yhat sqrt(MSE)): once predictions are
calibrated (MSE = sigma_y^2 (1-rho^2), sigma_yhat = rho sigma_y) it is 1/(2 rho sigma_y^2), a constant and not zero.
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from excora.moments import pearson
from excora.tasks.plateau import LEVELS
from excora.theory import gradient_ratio, gradient_ratio_bound, pcc_gradient, sensitivity
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.stacked import Bags, Stack, Variant
from excora_studies.synthetic import spread, tasks
from excora_studies.training import Look, Protocol, Rates, sample, train
from excora_studies.tuning import TUNING_SEED, tune

VARIANTS = (
    Variant(name="MSE + PCC", pool="softmax", correlation="pcc"),
    Variant(name="MSE only", pool="softmax", correlation=None),
    Variant(name="MSE + DNPL", pool="softmax"),
)
CURVES = ("ratio", "bound", "sigma_yhat", "pcc", "logit_gradient")


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on; ``data`` is not used."""
    protocol = Protocol.quick(2) if preset == "quick" else Protocol(epochs=150)
    return {
        "levels": list(LEVELS),
        "seeds": list(range(seeds or (1 if preset == "quick" else 3))),
        "tuning_seed": TUNING_SEED,
        "protocol": dataclasses.asdict(protocol),
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """The learning rates first, then a chunk for each seed."""
    protocol = Protocol(**configuration["protocol"])

    def tuning(_: Results, tick: Tick) -> Any:
        return tune(VARIANTS, tasks(TUNING_SEED), protocol, tick)

    def seed_chunk(seed: int) -> Chunk:
        def compute(done: Results, tick: Tick) -> Any:
            return _watch(seed, done["tuning"]["rates"], protocol, tick)

        return Chunk(f"seed {seed}", protocol.epochs, compute)

    return [Chunk("tuning", protocol.epochs, tuning), *map(seed_chunk, configuration["seeds"])]


def _watch(seed: int, rates: Rates, protocol: Protocol, tick: Tick) -> list[dict[str, Any]]:
    """Per level the curves of each variant, (looks,) each, and sigma_y."""
    training, validation, _ = sample(tasks(seed), [seed] * len(LEVELS), protocol)
    stack = Stack(VARIANTS, [seed] * len(LEVELS), tasks(seed)[0].dim)
    curves: list[Tensor] = []
    begin = torch.tensor([rates[variant.name] for variant in VARIANTS]).T
    parts = training, validation
    train(stack, parts, protocol, begin, observe=lambda look: curves.append(_look(look, training)), tick=tick)
    history = torch.stack(curves, -1)  # (levels, variants, curves, looks)
    return [
        {
            "sigma~": level,
            "sigma_y": training.target[g].double().std(correction=0).item(),
            "models": {
                variant.name: dict(zip(CURVES, history[g, v].tolist(), strict=True))
                for v, variant in enumerate(VARIANTS)
            },
        }
        for g, level in enumerate(LEVELS)
    ]


def _look(look: Look, training: Bags) -> Tensor:
    """The curves' values after one epoch, (levels, variants, curves), float64."""
    rows = []
    for g in range(len(LEVELS)):
        target = training.target[g].double()
        h = training.elements[g].transpose(0, 1).double()
        for v in range(len(VARIANTS)):
            prediction = look.train[g, v].double()
            model = look.stack.model(g, v).double()
            with torch.no_grad():
                slope = sensitivity(h, model["pool"](h).weights, model.get_parameter("head.weight")[0])
                by_logit = pcc_gradient(prediction, target, slope)
            values = (
                gradient_ratio(prediction, target),
                gradient_ratio_bound(prediction, target).value,
                prediction.std(correction=0),
                pearson(prediction, target),
                by_logit.square().mean().sqrt(),
            )
            rows.append(torch.stack(values))
    return torch.stack(rows).view(len(LEVELS), len(VARIANTS), len(CURVES))


def report(configuration: dict[str, Any], results: Results) -> Report:
    """How far the ratio falls, how near its bound it comes, and where sigma_yhat ends."""
    per_seed = [results[f"seed {seed}"] for seed in configuration["seeds"]]
    epochs = Protocol(**configuration["protocol"]).evaluations()
    rows, used, above = [], [], 0
    for index, level in enumerate(LEVELS):
        for variant in VARIANTS:
            runs = [groups[index]["models"][variant.name] for groups in per_seed]
            sigma = [groups[index]["sigma_y"] for groups in per_seed]
            shares = [r / b for run in runs for r, b in zip(run["ratio"], run["bound"], strict=True) if b is not None]
            used.append(max(shares))
            above += sum(share > 1.0 for share in shares)
            limit = [1.0 / (2.0 * run["pcc"][-1] * s**2) for run, s in zip(runs, sigma, strict=True)]
            row: dict[str, Any] = {"sigma~": f"{level:.2f}", "loss": variant.name}
            row |= {f"ratio {when}": spread([run["ratio"][i] for run in runs])[0] for when, i in _WHEN.items()}
            row |= {"1/(2 rho sigma_y^2)": statistics.fmean(limit), "largest ratio/bound": max(shares)}
            for when, i in _WHEN.items():
                row[f"sigma ratio {when}"] = spread(
                    [run["sigma_yhat"][i] / s for run, s in zip(runs, sigma, strict=True)]
                )[0]
            row |= {"logit gradient start": spread([run["logit_gradient"][0] for run in runs])[0]}
            row |= {"PCC end": spread([run["pcc"][-1] for run in runs])[0]}
            row |= {"paper": "ratio below bound; sigma_yhat -> sigma_y"}
            rows.append(row)
    summary = {"tuning": results["tuning"], "largest ratio/bound": max(used), "looks above the bound": above}
    notes = [f"ratio above its bound at {above} looks; at most {max(used):.3f} of it is used"]
    figures = {"gradients": _figure(epochs, per_seed)}
    return Report(rows, summary, figures, notes)


_WHEN = {"start": 0, "end": -1}


def _figure(epochs: list[int], per_seed: list[list[dict[str, Any]]]) -> Figure:
    panels = []
    for index, level in enumerate(LEVELS):
        runs = [groups[index]["models"]["MSE + PCC"] for groups in per_seed]
        lines = []
        for key, label in (("ratio", "RMS ratio PCC/MSE"), ("bound", "its bound"), ("sigma_yhat", "sigma_yhat")):
            columns = list(zip(*(run[key] for run in runs), strict=True))
            known = [[x for x in column if x is not None] for column in columns]
            middle, low, high = ([f(x) if x else None for x in known] for f in (statistics.fmean, min, max))
            lines.append(Line(label=label, x=epochs, y=middle, low=low, high=high, dashed=key == "bound"))
        sigma = statistics.fmean([groups[index]["sigma_y"] for groups in per_seed])
        title = f"sigma~ = {level:.2f} (dotted: sigma_y)"
        panels.append(Panel(title=title, x="epoch", y="", lines=lines, log_y=True, level=sigma))
    return Figure(title="Gradient ratio and spread of predictions, softmax with MSE + PCC", panels=panels, columns=2)


def _block(contents: Contents) -> str:
    """Ratio, bound and spread at the start and the end."""
    rows = [
        [
            row["sigma~"],
            row["loss"],
            number(row["ratio start"], 3),
            number(row["ratio end"], 3),
            number(row["1/(2 rho sigma_y^2)"], 3),
            number(row["largest ratio/bound"], 3),
            f"{row['sigma ratio start']:.2f} → {row['sigma ratio end']:.2f}",
            f"{row['logit gradient start']:.1e}",
        ]
        for row in contents["gradients"]["table"]
    ]
    header = ("σ~", "loss", "ratio, start", "end", "1/(2ρσ_y²)", "largest ratio/bound", "σ_ŷ/σ_y", "RMS dρ/dz, start")
    return table(header, rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "gradients": _block,
}
