"""Study ``elliptical``: should all channels count alike in a score? A metric from the attention itself, and its price.

Kernel regression of sin(2 x_1) with idle channels (what the metric gains), and pools trained on clean bags and tested
with contaminated elements (what it loses).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from excora.losses import JointLoss
from excora.pooling import make_pool
from excora.pooling.elliptical import metric
from excora_studies.acceptance import Row, block, bounded, near
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick

WIDTHS = (2, 5, 10)
BAND, STEP, NOISE, ROWS, QUERIES = 0.5, 0.5, 0.3, 500, 200
POOLS = ("mean", "softmax", "elliptical", "eca")
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
DIM, ELEMENTS, BAGS = 16, 20, 2000


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {
        "seeds": list(range(seeds or (1 if quick else 5))),
        "repeats": 2 if quick else 20,
        "steps": 10 if quick else 400,
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a width of the regression, then one a pool."""
    repeats, seeds, steps = configuration["repeats"], configuration["seeds"], configuration["steps"]

    def regression(dim: int) -> Chunk:
        return Chunk(f"D = {dim}", repeats, lambda _, tick: [_regression(dim, seed, tick) for seed in range(repeats)])

    def dirty(name: str) -> Chunk:
        return Chunk(f"bags, {name}", len(seeds), lambda _, tick: [_dirty(name, seed, steps, tick) for seed in seeds])

    return [*map(regression, WIDTHS), *map(dirty, POOLS)]


def _regression(dim: int, seed: int, tick: Tick) -> dict[str, float]:
    """Mean squared errors at new points, of four metrics; and the mean metric of an idle channel."""
    generator = torch.Generator().manual_seed(seed)
    x, query = (torch.randn(n, dim, generator=generator, dtype=torch.float64) for n in (ROWS, QUERIES))
    y = torch.sin(2 * x[:, 0]) + NOISE * torch.randn(ROWS, generator=generator, dtype=torch.float64)

    def fitted(at: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        # -|q - k|^2_m / (2 h^2), expanded: no (queries, rows, channels) tensor
        score = (at * m) @ x.T - (x.square() @ m) / 2
        alpha = torch.softmax(score / BAND**2, 1)
        return alpha @ y, alpha

    ones, true = torch.ones(dim, dtype=x.dtype), torch.sin(2 * query[:, 0])
    alpha = fitted(query, ones)[1]
    steps = STEP * torch.eye(dim, dtype=x.dtype)
    moved = torch.stack([(fitted(query + e, ones)[0] - fitted(query - e, ones)[0]).abs().mean() for e in steps])
    differences = moved / moved.max()
    derivative = metric(alpha, x.expand(QUERIES, -1, -1), y.view(1, -1, 1).expand(QUERIES, -1, 1)).mean(0)
    known = torch.zeros(dim, dtype=x.dtype)
    known[0] = 1.0
    tried = {"alike": ones, "differences": differences, "derivative": derivative / derivative.max(), "known": known}
    tick()
    found = {name: float((fitted(query, m)[0] - true).square().mean()) for name, m in tried.items()}
    return found | {"idle": float(differences[1:].mean())}


def bags(count: int, seed: int, share: float) -> tuple[Tensor, Tensor]:
    """Elements whose channel 0 marks them and channel 1 has the label; of a share the others are ten times as large."""
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(count, ELEMENTS, DIM, generator=generator)
    y = (torch.softmax(2 * h[..., 0], 1) * h[..., 1]).sum(1) + 0.05 * torch.randn(count, generator=generator)
    dirty = torch.rand(count, ELEMENTS, 1, generator=generator) < share
    h[..., 2:] = torch.where(dirty, 10 * h[..., 2:], h[..., 2:])
    return h, y


def _dirty(name: str, seed: int, steps: int, tick: Tick) -> list[float]:
    """Pool and linear head, Adam on MSE + correlation, equal budget and no tuning; correlation at each share."""
    torch.manual_seed(seed)
    pool, head = make_pool(name, DIM), nn.Linear(DIM, 1)
    model = nn.ModuleList([pool, head])
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=0.02), JointLoss()
    h, y = bags(BAGS, seed, 0.0)
    for step in range(steps):
        part = torch.arange(step * 200, step * 200 + 200) % BAGS
        pooled = pool(h[part])
        optimizer.zero_grad()
        loss(head(pooled.value), y[part].unsqueeze(1), penalty=pooled.penalty).backward()
        optimizer.step()
    model.eval()
    found = []
    for share in SHARES:
        h, y = bags(4000, 100 + seed, share)
        with torch.no_grad():
            found.append(float(torch.corrcoef(torch.stack([head(pool(h).value)[:, 0], y]))[0, 1]))
    tick()
    return found


def _errors(results: Results, dim: int, name: str) -> list[float]:
    return [one[name] for one in results[f"D = {dim}"]]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def report(configuration: dict[str, Any], results: Results) -> Report:  # noqa: ARG001  (the protocol)
    """Errors beside the spec's, ratios, and correlations by the share of dirt."""
    rows: list[Row] = []
    for dim, asked in ((5, (0.1806, 0.1127, 0.1061)), (10, (0.4438, 0.2638, 0.1032))):
        for name, value in zip(("alike", "differences", "known"), asked, strict=True):
            rows.append(
                near(
                    f"D = {dim}: error, channels {_said(name)}",
                    _errors(results, dim, name),
                    value,
                    within=0.15,
                    share=True,
                )
            )
        plain = _mean(_errors(results, dim, "alike"))
        for name in ("differences", "derivative"):
            ratio = _mean(_errors(results, dim, name)) / plain
            rows.append(bounded(f"D = {dim}: ratio to all alike, {_said(name)}", ratio, below=0.75))
    for name in POOLS:
        for share in (0.0, 0.05, 0.2):
            found = [one[SHARES.index(share)] for one in results[f"bags, {name}"]]
            rows.append(bounded(f"pool {name}: correlation, {share:.0%} dirty", found, says=""))
    judged = [row for row in rows if row["holds"]]
    held = sum(row["holds"] == "yes" for row in judged)
    note = f"{held} of {len(judged)} hold; the pools are trained on clean bags"
    return Report(rows, {"held": held, "of": len(judged)}, {"elliptical": _figure(results)}, [note])


def _said(name: str) -> str:
    return {
        "alike": "all alike",
        "differences": "by differences",
        "derivative": "by the derivative",
        "known": "known",
    }[name]


def _figure(results: Results) -> Figure:
    errors = [
        Line(label=_said(name), x=WIDTHS, y=[_mean(_errors(results, dim, name)) for dim in WIDTHS], markers=True)
        for name in ("alike", "differences", "derivative", "known")
    ]
    pools = [
        Line(
            label=name,
            x=[100 * s for s in SHARES],
            y=[_mean(list(c)) for c in zip(*results[f"bags, {name}"], strict=True)],
            markers=True,
        )
        for name in POOLS
    ]
    return Figure(
        title="Should all channels count alike in a score?",
        panels=[
            Panel(title="kernel regression of sin(2 x1)", x="channels", y="squared error", lines=errors),
            Panel(title="trained on clean bags", x="dirty elements, %", y="correlation", lines=pools),
        ],
        columns=2,
    )


#: For the pages: what stands between the marks of that name.
BLOCKS = block("elliptical")
