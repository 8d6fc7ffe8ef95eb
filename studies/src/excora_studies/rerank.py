"""Study ``rerank``: do candidates that are compared by their company find their own better than by distance?

Clusters are random arcs (span 1.6 rad) with noise in 32 dimensions: the ends of an arc are far apart and share their
neighbours. Half of the clusters train :class:`excora.models.parts.rerank.Reranker`, the others are asked about. mAP of
the first stage (cosine), of the affinities' own cosine (nothing trained), and of the re-ranker.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from excora.models.parts.rerank import Reranker, average_precision, cosine_affinity
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

POINTS, DIM, SPAN, NOISE = 20, 32, 1.6, 0.9
WAYS = ("first stage", "affinity, nothing trained", "re-ranked")


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {
        "seeds": list(range(seeds or (1 if quick else 2))),
        "clusters": 8 if quick else 150,
        "steps": 3 if quick else 240,
        "candidates": 16 if quick else 64,
        "batch": 32,
    }


def arcs(clusters: int, seed: int) -> tuple[Tensor, Tensor]:
    """Unit features (clusters * points, dim) and the cluster of each."""
    g = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(clusters, DIM, 2, generator=g)).Q
    angle = SPAN * torch.rand(clusters, POINTS, 1, generator=g)
    place = torch.cat([angle.cos(), angle.sin()], -1) @ basis.mT
    noisy = place + NOISE / math.sqrt(DIM) * torch.randn(clusters, POINTS, DIM, generator=g)
    return F.normalize(noisy.flatten(0, 1), dim=1), torch.arange(clusters).repeat_interleave(POINTS)


def first_stage(x: Tensor, cluster: Tensor, query: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features (n, 1 + k, dim) of queries and their nearest, the cosines (n, k), and who is of the query's cluster."""
    cosine = (x[query] @ x.T).scatter(1, query[:, None], -2.0)
    score, found = cosine.topk(k, 1)
    return torch.cat([x[query, None], x[found]], 1), score, cluster[found] == cluster[query, None]


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a seed."""
    steps = configuration["steps"]

    def one(seed: int) -> Chunk:
        return Chunk(f"seed {seed}", steps, lambda _, tick: _train(configuration, seed, tick))

    return [one(seed) for seed in configuration["seeds"]]


def _train(configuration: dict[str, Any], seed: int, tick: Tick) -> dict[str, Any]:
    clusters, k, steps = configuration["clusters"], configuration["candidates"], configuration["steps"]
    x, cluster = arcs(clusters, 2 * seed)
    torch.manual_seed(seed)
    model = Reranker(anchors=k, dim=64, depth=2, heads=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-6)
    looks, curve = max(steps // 6, 1), []
    for step in range(steps):
        if step % looks == 0:
            curve.append([step, _score(configuration, model, seed, 60)["re-ranked"]])
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 20) * (1 + math.cos(math.pi * step / steps)) / 2
        query = torch.randint(len(x), (configuration["batch"],))
        features, _, relevant = first_stage(x, cluster, query, k)
        order = torch.randperm(k)  # the anchors are fixed before candidates are mixed
        affinity = cosine_affinity(features, k)
        affinity = torch.cat([affinity[:, :1], affinity[:, 1:][:, order]], 1)
        loss = model.loss(affinity, relevant[:, order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tick()
    found = _score(configuration, model, seed, 600)
    return {"curve": [*curve, [steps, found["re-ranked"]]], **found}


@torch.no_grad()
def _score(configuration: dict[str, Any], model: Reranker, seed: int, most: int) -> dict[str, float]:
    """mAP over queries of held-out clusters, of their nearest candidates, by each way."""
    x, cluster = arcs(configuration["clusters"], 2 * seed + 1)
    k = configuration["candidates"]
    query = torch.linspace(0, len(x) - 1, min(most, len(x))).long()
    total = dict.fromkeys(WAYS, 0.0)
    for part in query.split(64):
        features, score, relevant = first_stage(x, cluster, part, k)
        affinity = cosine_affinity(features, k)
        unit = F.normalize(affinity, dim=-1)
        ways = (score, (unit[:, 1:] @ unit[:, :1].mT).squeeze(-1), model.eval()(affinity))
        for way, one in zip(WAYS, ways, strict=True):
            total[way] += float(average_precision(one, relevant).nan_to_num(0.0).sum())
    model.train()
    return {way: value / len(query) for way, value in total.items()}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """mAP by way."""
    runs = [results[f"seed {seed}"] for seed in configuration["seeds"]]
    rows: list[dict[str, Any]] = []
    for way in WAYS:
        values = torch.tensor([run[way] for run in runs])
        rows.append({"way": way, "mAP": float(values.mean()), "mAP sd": float(values.std(correction=0))})
    gain = min(run["re-ranked"] - run["first stage"] for run in runs)
    lines = [
        Line(label=f"re-ranked, seed {seed}", x=[a for a, _ in run["curve"]], y=[b for _, b in run["curve"]])
        for seed, run in zip(configuration["seeds"], runs, strict=True)
    ]
    panel = Panel(title="held-out clusters", x="step", y="mAP", lines=lines, level=rows[0]["mAP"])
    figure = Figure(title="Re-ranking by company (line: first stage)", panels=[panel], columns=1)
    note = f"re-ranked minus first stage, the least of the seeds: {gain:.3f}"
    return Report(rows, {"least gain": gain}, {"rerank": figure}, [note])


def _block(contents: Contents) -> str:
    rows = [[row["way"], f"{row['mAP']:.3f} ± {row['mAP sd']:.3f}"] for row in contents["rerank"]["table"]]
    return table(("candidates ranked by", "mAP on held-out clusters"), rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {"rerank": _block}
