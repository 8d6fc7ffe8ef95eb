"""Study ``primal``: self-attention without a matrix of pairs: its objective, its largest tensor, its rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from excora.primal import PrimalAttention, ksvd_objective
from excora_studies.acceptance import Row, block, bounded, near
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick

STEPS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
SIZES = (20, 60, 200, 600, 2000)
#: elements that are so many points with a little noise around them; 0: no groups at all
GROUPS = (2, 8, 0)
RANKS = tuple(range(1, 33))


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {"seeds": list(range(seeds or (1 if quick else 10))), "sizes": list(SIZES[:2] if quick else SIZES)}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """The objective around the SVD, the largest tensors, and how much of a kernel few singular values hold."""
    seeds, sizes = configuration["seeds"], configuration["sizes"]
    return [
        Chunk("objective", len(seeds), lambda _, tick: [_objective(seed, tick) for seed in seeds]),
        Chunk("largest tensor", len(sizes), lambda _, tick: [_largest(n, tick) for n in sizes]),
        Chunk("rank", len(GROUPS), lambda _, tick: {str(count): _held(count, tick) for count in GROUPS}),
    ]


def _objective(seed: int, tick: Tick, n: int = 40, p: int = 16, s: int = 5) -> dict[str, Any]:
    """|J| at the SVD, the error of e = U S, and |J| at some distance from it, by steps."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, p, generator=generator, dtype=torch.float64) for _ in range(2))
    phi_q, phi_k = nn.functional.normalize(q, dim=1), nn.functional.normalize(k, dim=1)
    u, values, vt = torch.linalg.svd(phi_q @ phi_k.T)
    u, values, v = u[:, :s], values[:s], vt[:s].T
    w_e, w_r, scale = phi_k.T @ v, phi_q.T @ u, n / values
    away = torch.randn(w_e.shape, generator=generator, dtype=torch.float64)

    def j(w: Tensor) -> float:
        return abs(float(ksvd_objective(phi_q @ w, phi_k @ w_r, w, w_r, scale)))

    tick()
    near_it = [j(w_e + step * away) for step in STEPS]
    return {"at": j(w_e), "e": float((phi_q @ w_e - u * values).abs().max()), "away": near_it}


class Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that any operation gives."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.entries = max([self.entries, *(x.numel() for x in tree_leaves(out) if isinstance(x, Tensor))])
        return out


def _largest(n: int, tick: Tick) -> list[int]:
    """Of primal attention, and of attention that shows its weights, forward and backward, width 16."""
    layer, usual = PrimalAttention(16, heads=2, rank=8, landmarks=8), nn.MultiheadAttention(16, 2, batch_first=True)
    with Largest() as ours:
        layer(torch.randn(1, n, 16, requires_grad=True)).sum().backward()
    with Largest() as theirs:
        h = torch.randn(1, n, 16, requires_grad=True)
        usual(h, h, h)[0].sum().backward()
    tick()
    return [ours.entries, theirs.entries]


def _held(count: int, tick: Tick, n: int = 400, p: int = 32) -> list[float]:
    """Share of the kernel's squared sum that its largest singular values hold, by rank."""
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(n, p, generator=generator, dtype=torch.float64)
    if count:
        points = torch.randn(count, p, generator=generator, dtype=torch.float64)
        h = points[torch.randint(count, (n,), generator=generator)] + 0.2 * h
    to_q, to_k = (torch.randn(p, p, generator=generator, dtype=torch.float64) / p**0.5 for _ in range(2))
    phi_q, phi_k = nn.functional.normalize(h @ to_q, dim=1), nn.functional.normalize(h @ to_k, dim=1)
    squares = torch.linalg.svdvals(phi_q @ phi_k.T).square()
    tick()
    return (squares.cumsum(0) / squares.sum())[: len(RANKS)].tolist()


def report(configuration: dict[str, Any], results: Results) -> Report:
    """The objective's zero and its order; how tensors grow."""
    found, sizes = results["objective"], configuration["sizes"]
    at = STEPS.index(1e-4)
    rows: list[Row] = [
        bounded("largest |J| at the SVD", max(one["at"] for one in found), below=1e-10),
        bounded("largest |e - U S|", max(one["e"] for one in found), below=1e-10),
        bounded("largest |J|, W_e moved by 1e-4", max(one["away"][at] for one in found), below=1e-5),
        near(
            "|J| at ten times the step",
            [one["away"][at + 1] / one["away"][at] for one in found],
            100.0,
            within=0.01,
            share=True,
        ),
    ]
    (ours, theirs), (few, many) = zip(*results["largest tensor"][-2:], strict=True), sizes[-2:]
    rows.append(near(f"largest tensor, {many:,} to {few:,} elements", ours[1] / ours[0], many / few, within=1e-9))
    rows.append(
        bounded(
            "the same, attention with its weights", theirs[1] / theirs[0], says=f"{(many / few) ** 2:g}: by the square"
        )
    )
    held = sum(row["holds"] == "yes" for row in rows)
    summary = {"held": held, "of": len([row for row in rows if row["holds"]])}
    return Report(rows, summary, {"primal": _figure(results, sizes)}, ["time and memory: python -m benchmarks primal"])


def _figure(results: Results, sizes: list[int]) -> Figure:
    objective = [Line(label="|J|", x=STEPS, y=one["away"], markers=True) for one in results["objective"]]
    ours, theirs = zip(*results["largest tensor"], strict=True)
    grows = [
        Line(label="primal attention", x=sizes, y=ours, markers=True),
        Line(label="attention with its weights", x=sizes, y=theirs, markers=True),
    ]
    names = {"2": "2 groups", "8": "8 groups", "0": "no groups"}
    ranks = [Line(label=names[count], x=RANKS, y=share) for count, share in results["rank"].items()]
    return Figure(
        title="Self-attention without a matrix of pairs",
        panels=[
            Panel(title="quadratic around the SVD", x="W_e moved by", y="|J|", lines=objective, log_x=True, log_y=True),
            Panel(title="the largest tensor of a step", x="elements", y="entries", lines=grows, log_x=True, log_y=True),
            Panel(title="400 elements, width 32", x="rank", y="share of the kernel", lines=ranks),
        ],
        columns=3,
    )


#: For the pages: what stands between the marks of that name.
BLOCKS = block("primal")
