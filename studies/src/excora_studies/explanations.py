"""Study ``explanations``: are explanations of attention right on planted models, with softmax and with ECA?

Two parts. Linear causal models with known graphs (6 nodes, weights 0.3 to 0.8): how often the skeleton comes back
exactly, by the sensitivity N. And FT-Transformers trained on y = 2a - 1.5b + noise with four idle columns: whether the
sets that explain a prediction are the planted columns, and whether the graph of the attention links them to the
prediction.
"""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from excora.data.table import TableSpec
from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.causal import attention_correlation, skeleton
from excora.diagnosis.explaining import explain
from excora.models.ft_transformer import FTTransformer
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

SENSITIVITIES = (100.0, 768.0, 1e4, 1e5, 1e8)
COLUMNS, EFFECTS = list("abcdef"), np.array([2.0, -1.5, 0.0, 0.0, 0.0, 0.0])
TOLERANCE = 0.8


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    counts = {"graphs": 3, "steps": 3, "rows": 2} if quick else {"graphs": 100, "steps": 200, "rows": 30}
    return {"seeds": list(range(seeds or (1 if quick else 3))), **counts}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """The graphs, then a chunk an attention and seed."""

    def one(attention: str, seed: int) -> Chunk:
        return Chunk(f"{attention}, seed {seed}", 1, lambda _, tick: _planted(configuration, attention, seed, tick))

    graphs = Chunk("graphs", 1, lambda _, tick: _graphs(configuration["graphs"], tick))
    return [graphs, *(one(a, seed) for a in ("softmax", "eca-paper") for seed in configuration["seeds"])]


def _graphs(count: int, tick: Tick) -> dict[str, float]:
    rng, hits = np.random.default_rng(0), dict.fromkeys(SENSITIVITIES, 0)
    for _ in range(count):
        order, g = rng.permutation(6), np.zeros((6, 6))
        for i, j in itertools.combinations(range(6), 2):
            if rng.random() < 0.4:
                g[order[j], order[i]] = rng.choice([-1, 1]) * rng.uniform(0.3, 0.8)
        correlation = attention_correlation(np.linalg.inv(np.eye(6) - g))
        edges = {(min(i, j), max(i, j)) for i, j in zip(*np.nonzero(g), strict=True)}
        for n in SENSITIVITIES:
            hits[n] += skeleton(correlation, sensitivity=n).edges == edges
    tick()
    return {f"{n:g}": hits[n] / count for n in SENSITIVITIES}


def _inputs(x: torch.Tensor) -> Any:
    return {"numeric": x, "missing": torch.zeros_like(x, dtype=torch.bool), "codes": torch.zeros(len(x), 0).long()}


def _planted(configuration: dict[str, Any], attention: Any, seed: int, tick: Tick) -> dict[str, Any]:
    torch.manual_seed(seed)
    options: dict[str, Any] = {"attention_dropout": 0.0, "feedforward_dropout": 0.0}
    model = FTTransformer(TableSpec(targets=1, numeric=6), dim=16, heads=2, attention=attention, where="all", **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    effects = torch.from_numpy(EFFECTS).float()
    for _ in range(configuration["steps"]):
        x = torch.randn(128, 6)
        loss = (model(_inputs(x)).prediction[:, 0] - x @ effects - 0.1 * torch.randn(128)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    right, linked, negative = [], [], []
    x = torch.randn(configuration["rows"], 6, generator=torch.Generator().manual_seed(99))
    with torch.no_grad():
        for row in x:
            weights = attention_maps(model, partial(model, _inputs(row[None])))[-1][0].double().numpy()

            def predict(there: np.ndarray, row: torch.Tensor = row) -> float:
                return float(model(_inputs((row * torch.from_numpy(there))[None])).prediction)

            found = explain(predict, COLUMNS, weights, tolerance=TOLERANCE, most=1)
            wanted = {
                c for c, e, value in zip(COLUMNS, EFFECTS, row.tolist(), strict=True) if abs(e * value) > TOLERANCE
            }
            near = abs(np.abs(EFFECTS * row.double().numpy()) - TOLERANCE) < 0.15  # too close to call
            got = {found.named(one)[0] for one in found.sets}
            right.append(not {c for c in got ^ wanted if not near[COLUMNS.index(c)]})
            linked.append(np.mean([node in found.graph.neighbours(0) for node in (1, 2)]))  # type: ignore[union-attr]
            negative.append(float((weights < 0).mean()))
    tick()
    return {"right": float(np.mean(right)), "linked": float(np.mean(linked)), "negative": float(np.mean(negative))}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Both parts."""
    rows: list[dict[str, Any]] = []
    for attention in ("softmax", "eca-paper"):
        runs = [results[f"{attention}, seed {seed}"] for seed in configuration["seeds"]]
        means = {key: float(np.mean([r[key] for r in runs])) for key in ("right", "linked", "negative")}
        rows.append({"attention": attention, **means})
    found = results["graphs"]
    curve = Line(label="recovered exactly", x=[float(n) for n in found], y=list(found.values()), markers=True)
    first = Panel(title="known graphs of 6 nodes", x="sensitivity N", y="share recovered", lines=[curve], log_x=True)
    x = [0.0, 1.0, 2.0]
    lines = [
        Line(label=r["attention"], x=x, y=[r["right"], r["linked"], r["negative"]], markers=True, joined=False)
        for r in rows
    ]
    ticks = {0.0: "sets are\nthe planted", 1.0: "planted are\nlinked", 2.0: "weights\nbelow 0"}
    second = Panel(title="planted FT-Transformers", x="", y="share", lines=lines, ticks=ticks)
    figure = Figure(title="Are explanations of attention right?", panels=[first, second], columns=2, size=(5.0, 3.2))
    return Report(rows, {"recovered": found}, {"explanations": figure}, [])


def _block(contents: Contents) -> str:
    rows = [
        [r["attention"], *(f"{r[key]:.2f}" for key in ("right", "linked", "negative"))]
        for r in contents["explanations"]["table"]
    ]
    return table(
        ("attention", "sets are the planted columns", "planted columns linked in the graph", "weights below 0"), rows
    )


#: For the pages: what stands between the marks of that name.
BLOCKS = {"explanations": _block}
