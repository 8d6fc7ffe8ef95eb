"""Study ``explanations``: are explanations of attention right on planted models, with softmax and with ECA?

Two parts. 200 linear causal models with known graphs (6 nodes, weights 0.3 to 0.8) for each density: how often the
skeleton comes back exactly, and how many edges are wrong, by the sensitivity N. And FT-Transformers trained on
y = 2a - 1.5b + noise with four idle columns, under softmax, under ECA, and under ECA with a gain of 3, where many
effective weights are negative: whether the sets that explain a prediction are the planted columns, and whether the
graph of the attention links these to the prediction and the idle ones not. How the graph is read, and its N, were
chosen on models of seeds 0 to 2; those here are others. The paper's reading, the deepest layer alone with N = 768,
stands beside it.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from excora.data.table import TableSpec
from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.causal import attention_correlation, skeleton
from excora.diagnosis.explaining import explain
from excora.extrapolation import Gain
from excora.models.ft_transformer import FTTransformer
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

SENSITIVITIES = (100.0, 768.0, 1e4, 1e5, 1e8)
#: Chances of an edge between two nodes.
DENSITIES = (0.2, 0.3, 0.35, 0.4, 0.45, 0.5)
#: Form of the attention, and the gain that is planted in it: None, it is learned.
FORMS: dict[str, tuple[str, float | None]] = {
    "softmax": ("softmax", None),
    "eca-paper": ("eca-paper", None),
    "eca, gain 3": ("eca", 3.0),
}
#: Of a planted model: the head of its column, and its place in the figure.
FIGURES = {
    "right": ("sets are the planted columns", "sets are\nplanted"),
    "linked": ("planted linked", "planted\nlinked"),
    "idle": ("idle linked", "idle\nlinked"),
    "paper linked": ("planted, paper's reading", "planted,\npaper's"),
    "paper idle": ("idle, paper's reading", "idle,\npaper's"),
    "negative": ("weights below 0", "weights\n< 0"),
}
COLUMNS, EFFECTS = list("abcdef"), np.array([2.0, -1.5, 0.0, 0.0, 0.0, 0.0])
TOLERANCE = 0.8
FIRST = 10  # seeds below chose how the graph is read


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    counts = {"graphs": 3, "steps": 3, "rows": 2} if quick else {"graphs": 200, "steps": 200, "rows": 30}
    return {"seeds": [FIRST + seed for seed in range(seeds or (1 if quick else 3))], **counts}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a density, then one a form of attention and seed."""

    def one(form: str, seed: int) -> Chunk:
        return Chunk(f"{form}, seed {seed}", 1, lambda _, tick: _planted(configuration, form, seed, tick))

    def known(density: float) -> Chunk:
        return Chunk(f"density {density}", 1, lambda _, tick: _graphs(configuration["graphs"], density, tick))

    planted = [one(form, seed) for form in FORMS for seed in configuration["seeds"]]
    return [*(known(density) for density in DENSITIES), *planted]


def _graphs(count: int, density: float, tick: Tick) -> dict[str, dict[str, float]]:
    """Share of skeletons that come back exactly, and mean number of wrong edges, by N."""
    rng = np.random.default_rng(0)
    exact, wrong = dict.fromkeys(SENSITIVITIES, 0), dict.fromkeys(SENSITIVITIES, 0)
    for _ in range(count):
        order, g = rng.permutation(6), np.zeros((6, 6))
        for i, j in itertools.combinations(range(6), 2):
            if rng.random() < density:
                g[order[j], order[i]] = rng.choice([-1, 1]) * rng.uniform(0.3, 0.8)
        correlation = attention_correlation(np.linalg.inv(np.eye(6) - g))
        edges = {(min(i, j), max(i, j)) for i, j in zip(*np.nonzero(g), strict=True)}
        for n in SENSITIVITIES:
            found = skeleton(correlation, sensitivity=n).edges
            exact[n] += found == edges
            wrong[n] += len(found ^ edges)
    tick()
    return {f"{n:g}": {"exact": exact[n] / count, "wrong": wrong[n] / count} for n in SENSITIVITIES}


def _inputs(x: torch.Tensor) -> Any:
    return {"numeric": x, "missing": torch.zeros_like(x, dtype=torch.bool), "codes": torch.zeros(len(x), 0).long()}


def _trained(form: str, seed: int, steps: int) -> FTTransformer:
    """On rows that are drawn anew at each step."""
    torch.manual_seed(seed)
    attention, gain = FORMS[form]
    options: dict[str, Any] = {"attention": attention, "attention_dropout": 0.0, "feedforward_dropout": 0.0}
    model = FTTransformer(TableSpec(targets=1, numeric=6), dim=16, heads=2, where="all", **options)
    for part in model.modules():
        if gain is not None and isinstance(part, Gain):
            torch.nn.init.zeros_(part.out.weight)
            torch.nn.init.constant_(part.out.bias, math.log(3 * gain / (4 - gain)))  # gamma = 4 / (1 + 3 exp(-bias))
            part.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    effects = torch.from_numpy(EFFECTS).float()
    for _ in range(steps):
        x = torch.randn(128, 6)
        loss = (model(_inputs(x)).prediction[:, 0] - x @ effects - 0.1 * torch.randn(128)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _planted(configuration: dict[str, Any], form: str, seed: int, tick: Tick) -> dict[str, Any]:
    model = _trained(form, seed, configuration["steps"]).requires_grad_(False)
    found = []
    for row in torch.randn(configuration["rows"], 6, generator=torch.Generator().manual_seed(99)):
        layers = [one[0].double().numpy() for one in attention_maps(model, partial(model, _inputs(row[None])))]

        def predict(there: np.ndarray, row: torch.Tensor = row) -> float:
            return float(model(_inputs((row * torch.from_numpy(there))[None])).prediction)

        one = explain(predict, COLUMNS, layers, tolerance=TOLERANCE, most=1)
        moved = np.abs(EFFECTS * row.double().numpy())
        far = np.abs(moved - TOLERANCE) > 0.15  # the others are too close to call
        got = np.isin(COLUMNS, [one.named(e)[0] for e in one.sets])
        alone = skeleton(attention_correlation(layers[-1].mean(0)), sensitivity=768.0)
        ours, paper = (np.isin(np.arange(1, 7), g.neighbours(0)) for g in (one.graph, alone))  # type: ignore[union-attr]
        right = bool((got == (moved > TOLERANCE))[far].all())
        linked = [near[part].mean() for near in (ours, paper) for part in (slice(2), slice(2, None))]
        found.append((right, *linked, (layers[-1] < 0).mean()))
    tick()
    return dict(zip(FIGURES, np.mean(found, 0).tolist(), strict=True))


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Both parts."""
    rows: list[dict[str, Any]] = []
    for form in FORMS:
        runs = [results[f"{form}, seed {seed}"] for seed in configuration["seeds"]]
        rows.append({"attention": form} | {key: float(np.mean([r[key] for r in runs])) for key in runs[0]})
    recovered = {f"{density}": results[f"density {density}"] for density in DENSITIES}
    lines = []
    for density, found in recovered.items():
        share = np.array([one["exact"] for one in found.values()])
        sd = np.sqrt(share * (1 - share) / configuration["graphs"])
        x, ends = [float(n) for n in found], {"low": (share - sd).tolist(), "high": (share + sd).tolist()}
        lines.append(Line(label=f"edges with {density}", x=x, y=share.tolist(), markers=True, **ends))
    title = f"{configuration['graphs']} known graphs of 6 nodes"
    first = Panel(title=title, x="sensitivity N", y="share recovered exactly", lines=lines, log_x=True)
    places = [float(k) for k in range(len(FIGURES))]
    shown = [
        Line(label=r["attention"], x=places, y=[r[key] for key in FIGURES], markers=True, joined=False) for r in rows
    ]
    ticks = dict(zip(places, (short for _, short in FIGURES.values()), strict=True))
    second = Panel(title="planted FT-Transformers", x="", y="share", lines=shown, ticks=ticks)
    figure = Figure(title="Are explanations of attention right?", panels=[first, second], columns=2, size=(5.6, 3.4))
    return Report(rows, {"recovered": recovered}, {"explanations": figure}, [])


def _block(contents: Contents) -> str:
    heads = ("attention", *(long for long, _ in FIGURES.values()))
    found = contents["explanations"]["table"]
    return table(heads, [[r["attention"], *(f"{r[key]:.2f}" for key in FIGURES)] for r in found])


def _recovery(contents: Contents) -> str:
    """Share that comes back exactly with its binomial deviation, and in brackets the mean number of wrong edges."""
    found, graphs = (
        contents["explanations"]["summary"]["recovered"],
        contents["explanations"]["configuration"]["graphs"],
    )

    def cell(one: dict[str, float]) -> str:
        sd = math.sqrt(one["exact"] * (1 - one["exact"]) / graphs)
        return f"{one['exact']:.3f} ± {sd:.3f} ({one['wrong']:.2f})"

    names = [f"N = {n:g}" for n in SENSITIVITIES]
    return table(("chance of an edge", *names), [[d, *map(cell, by_n.values())] for d, by_n in found.items()])


#: For the pages: what stands between the marks of that name.
BLOCKS = {"explanations": _block, "recovery": _recovery}
