"""Study ``transport``: how far are maps and trained encoders from an optimal map, and how straight do they go?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from excora.diagnosis.transport import gaussian_wasserstein, transport
from excora_studies.acceptance import Row, block, bounded, near
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick

Array = NDArray[np.float64]
POINTS = 200
ANGLES = tuple(np.linspace(0.0, math.pi, 13).tolist())
RATES = (0.0003, 0.001, 0.003)


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {
        "seeds": list(range(seeds or (1 if quick else 5))),
        "epochs": 4 if quick else 60,
        "cloud": 50 if quick else 1000,
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """Maps whose answer is known, rotations by angle, and encoders trained at three rates."""
    seeds, epochs = configuration["seeds"], configuration["epochs"]

    def training(rate: float) -> Chunk:
        name = f"encoder, rate {rate:g}"
        return Chunk(name, len(seeds), lambda _, tick: [_encoder(rate, seed, epochs, tick) for seed in seeds])

    return [
        Chunk("maps", len(seeds), lambda _, tick: [_maps(seed, tick) for seed in seeds]),
        Chunk("rotation", 1, lambda _, tick: _rotations(seeds, tick)),
        Chunk("normal laws", 1, lambda _, tick: _normal(configuration["cloud"], tick)),
        *map(training, RATES),
    ]


def _turn(angle: float) -> Array:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def _maps(seed: int, tick: Tick) -> dict[str, list[float]]:
    """Optimality, matching and efficiency of maps that are, or are not, gradients of a convex function."""
    rng = np.random.default_rng(seed)
    x, root = rng.normal(size=(POINTS, 2)), rng.normal(size=(2, 2))
    made = {
        "translation": x + 3.0,
        "stretch": x @ (root @ root.T + 0.1 * np.eye(2)),
        "rotation by 2 rad": x @ _turn(2.0).T,
        "permutation": x[rng.permutation(POINTS)],
    }
    tick()
    found = {name: transport([x, y]) for name, y in made.items()}
    straight = found["translation"]
    published = straight.distance / straight.path  # a root of squares over a sum of lengths
    shown = {name: [one.optimality, one.matching, one.monge_gap, one.efficiency] for name, one in found.items()}
    return shown | {"published": [published]}


def _rotations(seeds: list[int], tick: Tick) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"optimality": [], "matching": []}
    for angle in ANGLES:
        both = []
        for seed in seeds:
            x = np.random.default_rng(seed).normal(size=(POINTS, 2))
            one = transport([x, x @ _turn(angle).T])
            both.append([one.optimality, one.matching])
        found["optimality"].append(float(np.mean([one[0] for one in both])))
        found["matching"].append(float(np.mean([one[1] for one in both])))
    tick()
    return found


def _normal(count: int, tick: Tick) -> list[float]:
    """2-Wasserstein distance of two normal laws: in closed form, and of points drawn from them."""
    rng = np.random.default_rng(0)
    a, b = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, -0.4], [-0.4, 1.0]])
    exact = gaussian_wasserstein([0.0, 0.0], a, [3.0, 0.0], b)
    x, y = rng.multivariate_normal([0.0, 0.0], a, count), rng.multivariate_normal([3.0, 0.0], b, count)
    tick()
    return [exact, transport([x, y]).least / math.sqrt(count)]


def _encoder(rate: float, seed: int, epochs: int, tick: Tick) -> dict[str, Any]:
    """Points after a residual layer of width 2, epoch by epoch, trained with a linear head to tell |x|^2."""
    torch.manual_seed(seed)
    body, head = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)), nn.Linear(2, 1)
    x = torch.randn(POINTS, 2)
    y = x.square().sum(1, keepdim=True) - 2.0
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=rate, momentum=0.9)
    stages = []
    for _ in range(epochs):
        with torch.no_grad():
            stages.append((x + body(x)).double().numpy())
        for rows in torch.randperm(POINTS).split(20):
            optimizer.zero_grad()
            loss = (head(x[rows] + body(x[rows])) - y[rows]).square().mean()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        stages.append((x + body(x)).double().numpy())
        error = float((head(x + body(x)) - y).square().mean() / y.var())
    tick()
    layer, training = transport([x.numpy(), stages[-1]]), transport(stages)
    curve = [transport([stages[0], stage]).optimality for stage in stages[1 :: max(epochs // 12, 1)]]
    return {
        "error": error,
        "layer": [layer.optimality, layer.matching],
        "training": [training.optimality, training.efficiency],
        "curve": curve,
    }


def _all(results: Results, chunk: str, key: str, place: int) -> list[float]:
    return [one[key][place] for one in results[chunk]]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """The known maps, then what training did."""
    rows: list[Row] = []
    for name in ("translation", "stretch"):
        for place, said in enumerate(("optimality", "matching")):
            rows.append(near(f"{name}: {said}", _all(results, "maps", name, place), 1.0, within=1e-9))
        rows.append(bounded(f"{name}: Monge gap", max(_all(results, "maps", name, 2)), below=1e-9))
    rows.append(near("translation: efficiency", _all(results, "maps", "translation", 3), 1.0, within=1e-9))
    wrong = _all(results, "maps", "published", 0)
    rows.append(near("the same in the published units", wrong, 1 / math.sqrt(POINTS), within=1e-6))
    rows.append(
        near("rotation by 2 rad: optimality", _all(results, "maps", "rotation by 2 rad", 0), 0.172, within=0.05)
    )
    rows.append(bounded("rotation by 2 rad: matching", _all(results, "maps", "rotation by 2 rad", 1), below=0.03))
    rows.append(bounded("permutation: optimality", max(_all(results, "maps", "permutation", 0)), below=1e-9))
    exact, drawn = results["normal laws"]
    rows.append(near("two normal laws: distance of drawn points", drawn, exact, within=0.03, share=True))
    for rate in RATES:
        chunk = f"encoder, rate {rate:g}"
        rows.append(bounded(f"{chunk}: optimality of the layer", _all(results, chunk, "layer", 0)))
        rows.append(bounded(f"{chunk}: efficiency of its training", _all(results, chunk, "training", 1)))
    asked = [row for row in rows if row["holds"]]
    held = sum(row["holds"] == "yes" for row in asked)
    errors = {
        f"error, rate {rate:g}": float(np.mean([one["error"] for one in results[f"encoder, rate {rate:g}"]]))
        for rate in RATES
    }
    summary = {"held": held, "of": len(asked)} | errors
    return Report(rows, summary, {"transport": _figure(configuration, results)}, [f"{held} of {len(asked)} hold"])


def _figure(configuration: dict[str, Any], results: Results) -> Figure:
    rotation = [
        Line(label=name, x=ANGLES, y=results["rotation"][name], markers=True) for name in ("optimality", "matching")
    ]
    epochs = list(range(1, configuration["epochs"] + 1, max(configuration["epochs"] // 12, 1)))
    curves, straight = [], []
    for rate in RATES:
        found = results[f"encoder, rate {rate:g}"]
        curves.append(Line(label=f"rate {rate:g}", x=epochs, y=np.mean([one["curve"] for one in found], 0).tolist()))
        straight.append(float(np.mean([one["training"][1] for one in found])))
    return Figure(
        title="How far from an optimal map, and how straight?",
        panels=[
            Panel(title="200 points turned", x="angle, rad", y="", lines=rotation),
            Panel(title="an encoder in training: from its start", x="epoch", y="optimality", lines=curves),
            Panel(
                title="the way of training",
                x="learning rate",
                y="efficiency",
                lines=[Line(label="efficiency", x=RATES, y=straight, markers=True)],
            ),
        ],
        columns=3,
    )


#: For the pages: what stands between the marks of that name.
BLOCKS = block("transport")
