"""Study ``in-context``: what one linear step makes of n labelled examples, trained and in closed form.

The pool ``linear`` trained on prompts whose task is new each time, beside the best risk of
:mod:`excora.theory.in_context`; what weights by age are worth under drift; what retrieval is worth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from excora.pooling.linear import LinearPool
from excora.tasks.in_context_linear import InContextLinearTask
from excora.theory.in_context import best_preconditioner, drift, in_context_risk, retrieved_risk
from excora_studies.acceptance import Row, block, near
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick

#: (d, n, variance of the noise)
TRAINED = ((10, 5, 0.25), (10, 10, 0.25), (10, 20, 0.25), (20, 40, 0.0), (20, 40, 1.0))
ASKED = {(10, 10, 0.25): 5.5441, (20, 40, 0.0): 6.8852, (20, 40, 1.0): 8.0968}
SPECTRUM = np.diag([4, 2, 1, 0.5, 0.25, 0.1, 0.05, 0.02])
ALIGNMENTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
#: of the retrieval: d, n, variance of the noise
RETRIEVED = (6, 8, 0.3)


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {
        "seeds": list(range(seeds or 1)),
        "steps": 20 if quick else 800,
        "batch": 256,
        "draws": 500 if quick else 20_000,
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A training each, then the simulations of the closed forms."""
    draws = configuration["draws"]

    def training(setting: tuple[int, int, float]) -> Chunk:
        seeds = configuration["seeds"]
        return Chunk(
            _name(setting), len(seeds), lambda _, tick: [_trained(setting, configuration, s, tick) for s in seeds]
        )

    return [
        *map(training, TRAINED),
        Chunk("drift", 1, lambda _, tick: _drift(draws, tick)),
        Chunk("rank", 1, lambda _, tick: _rank(draws, tick)),
        Chunk("retrieval", len(ALIGNMENTS), lambda _, tick: [_retrieval(a, draws, tick) for a in ALIGNMENTS]),
    ]


def _name(setting: tuple[int, int, float]) -> str:
    dim, examples, noise = setting
    return f"d = {dim}, n = {examples}, noise {noise:g}"


def _best(dim: int, examples: int, noise: float) -> float:
    return in_context_risk(np.eye(dim), np.eye(dim), examples, noise)


def _trained(setting: tuple[int, int, float], configuration: dict[str, Any], seed: int, tick: Tick) -> float:
    """Risk of the pool after training on fresh prompts: the best risk, and how much more it has on the same prompts."""
    dim, examples, noise = setting
    # The task asks for some noise; 1e-12 is none.
    task = InContextLinearTask(dim=dim, examples=examples, noise=max(noise, 1e-12))
    pool = LinearPool(dim + 1)
    steps, batch = configuration["steps"], configuration["batch"]
    optimizer = torch.optim.Adam(pool.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for step in range(steps):
        bags, y = task.sample(batch, seed=1 + step + 10_000 * seed)
        optimizer.zero_grad()
        (pool(bags).value[:, -1] - y).square().mean().backward()
        optimizer.step()
        schedule.step()
    bags, y = task.sample(min(configuration["draws"], 8000), seed=0, dtype=torch.float64)
    w = torch.zeros(dim + 1, dim + 1, dtype=torch.float64)
    w[:dim, :dim] = examples * torch.from_numpy(best_preconditioner(np.eye(dim), np.eye(dim), examples, noise))
    best = LinearPool(dim + 1).double()
    with torch.no_grad():
        best.weight.copy_(w)
        ours, theirs = ((one.double()(bags).value[:, -1] - y).square().mean() for one in (pool, best))
    tick()
    return _best(dim, examples, noise) + float(ours - theirs)


def _drift(draws: int, tick: Tick) -> dict[str, Any]:
    """d = 10, n = 40, noise 0.1^2, similarity 0.9 a step: squared errors of constant and of the best weights."""
    task = InContextLinearTask(dim=10, examples=40, noise=0.01, similarity=0.9)
    found = _by_age(0.9)
    bags, y = (x.numpy() for x in task.sample(draws, seed=0, dtype=torch.float64))
    each = np.einsum("bd,bnd,bn->bn", bags[:, -1, :-1], bags[:, :-1, :-1], bags[:, :-1, -1])
    total = each.sum(1)
    tries = {"plain": total * (total @ y) / (total @ total), "weighted": each @ found.weights}
    tick()
    # E y^2 = d + s2 is known: taken with the same draws, their heavy tails cancel.
    return {name: 10.01 + float(((y - guess) ** 2 - y**2).mean()) for name, guess in tries.items()}


def _by_age(similarity: float) -> Any:
    lag = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    return drift(similarity**lag, similarity ** np.arange(40, 0, -1), dim=10, noise=0.01)


def _rank(draws: int, tick: Tick) -> float:
    """Squared error of the best full-rank step for a spectrum of features, n = 20, noise 0.3^2."""
    rng, w = np.random.default_rng(0), best_preconditioner(SPECTRUM, np.eye(8), 20, 0.09)
    x, xs = (rng.normal(size=(draws, *more, 8)) @ np.sqrt(SPECTRUM) for more in ((), (20,)))
    beta = rng.normal(size=(draws, 8))
    y = np.einsum("bnd,bd->bn", xs, beta) + 0.3 * rng.normal(size=(draws, 20))
    error = (x * beta).sum(1) + 0.3 * rng.normal(size=draws)
    error -= np.einsum("bi,ij,bj->b", x, w, np.einsum("bnd,bn->bd", xs, y))
    tick()
    return float((error**2).mean())


def _retrieval(alignment: float, draws: int, tick: Tick) -> float:
    """Squared error with the best step, examples like the query by ``alignment``."""
    dim, n, noise = RETRIEVED
    rng = np.random.default_rng(1)
    x = rng.normal(size=(draws, dim))
    xs = alignment * x[:, None] + np.sqrt(1 - alignment**2) * rng.normal(size=(draws, n, dim))
    beta = rng.normal(size=(draws, dim))
    y = np.einsum("bnd,bd->bn", xs, beta) + np.sqrt(noise) * rng.normal(size=(draws, n))
    label = (x * beta).sum(1) + np.sqrt(noise) * rng.normal(size=draws)
    step = retrieved_risk(alignment, n, dim, noise)[1]
    tick()
    return float(((label - step * np.einsum("bd,bnd,bn->b", x, xs, y)) ** 2).mean())


def _rule(alignment: float) -> float:
    """The abstract's rule: kappa = a^2 d + 1 times the examples."""
    dim, n, noise = RETRIEVED
    kappa = alignment**2 * dim + 1
    return dim + noise - kappa * n * dim / (kappa * n + dim + noise)


def report(configuration: dict[str, Any], results: Results) -> Report:  # noqa: ARG001  (the protocol)
    """Trained against best, weighted against plain, simulated against exact."""
    rows: list[Row] = []
    for setting in TRAINED:
        asked = ASKED.get(setting, _best(*setting))
        rows.append(near(f"trained, {_name(setting)}", results[_name(setting)], asked, within=0.03, share=True))
    found, seen = _by_age(0.9), results["drift"]
    rows.append(near("drift 0.9 a step: linear attention", found.plain, 9.2415, within=1e-4))
    rows.append(near("the same, drawn", seen["plain"], 9.2415, within=0.03, share=True))
    rows.append(near("drift 0.9 a step: best weights", found.weighted, 7.8101, within=1e-4))
    rows.append(near("the same, drawn", seen["weighted"], 7.8101, within=0.03, share=True))
    rows.append(near("ratio of the two", found.weighted / found.plain, 0.845, within=1e-3))
    full, two = (in_context_risk(SPECTRUM, np.eye(8), 20, 0.09, rank) for rank in (None, 2))
    rows.append(near("spectrum of features, full rank", full, 1.85238, within=1e-5))
    rows.append(near("the same, drawn", results["rank"], 1.85238, within=0.03, share=True))
    rows.append(near("the same, rank 2", two, 2.93244, within=1e-5))
    dim, n, noise = RETRIEVED
    for a, drawn in zip(ALIGNMENTS, results["retrieval"], strict=True):
        exact = retrieved_risk(a, n, dim, noise)[0]
        rows.append(
            near(
                f"retrieval, alignment {a:g}: drawn, against ours in closed form", drawn, exact, within=0.05, share=True
            )
        )
    held = sum(row["holds"] == "yes" for row in rows)
    return Report(
        rows, {"held": held, "of": len(rows)}, {"in-context": _figure(results)}, [f"{held} of {len(rows)} hold"]
    )


def _figure(results: Results) -> Figure:
    counts = list(range(1, 41))
    risks = [Line(label="best, closed form", x=counts, y=[_best(10, n, 0.25) for n in counts])]
    at = [setting for setting in TRAINED if setting[0] == 10]
    trained = [float(np.mean(results[_name(setting)])) for setting in at]
    risks.append(Line(label="trained or drawn", x=[n for _, n, _ in at], y=trained, joined=False))
    lags = list(range(1, 41))
    weights = [Line(label=f"similarity {s}", x=lags, y=_by_age(s).weights[::-1].tolist()) for s in (0.8, 0.9, 0.98)]
    similar = np.linspace(0.5, 1.0, 40)
    both = [_by_age(s) for s in similar]
    drifting = [
        Line(label="constant weights", x=similar.tolist(), y=[one.plain for one in both]),
        Line(label="best, closed form", x=similar.tolist(), y=[one.weighted for one in both]),
        Line(
            label="trained or drawn",
            x=[0.9, 0.9],
            y=[results["drift"][key] for key in ("plain", "weighted")],
            joined=False,
        ),
    ]
    dim, n, noise = RETRIEVED
    a = np.linspace(0.0, 1.0, 40)
    retrieval = [
        Line(label="best, closed form", x=a.tolist(), y=[retrieved_risk(x, n, dim, noise)[0] for x in a]),
        Line(label="the abstract's rule", x=a.tolist(), y=[_rule(x) for x in a], dashed=True),
        Line(label="trained or drawn", x=ALIGNMENTS, y=results["retrieval"], joined=False),
    ]
    return Figure(
        title="What one linear step makes of labelled examples",
        panels=[
            Panel(title="d = 10, noise 0.25", x="examples", y="risk", lines=risks),
            Panel(title="the best weights under drift", x="age of an example", y="weight", lines=weights),
            Panel(title="d = 10, n = 40", x="similarity of the task a step", y="risk", lines=drifting),
            Panel(title=f"retrieval, d = {dim}, n = {n}", x="alignment with the query", y="risk", lines=retrieval),
        ],
        columns=2,
    )


#: For the pages: what stands between the marks of that name.
BLOCKS = block("in-context")
