"""Study ``event-times``: does an encoding of time stand for its kernel, and what is it worth to a regression?"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import iv
from torch import Tensor

from excora.encodings.time import Bochner, InverseCDF, Mercer
from excora.tasks.event_times import EventTimesTask
from excora_studies.acceptance import Row, block, bounded, near
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick

FREQUENCIES = (64, 512, 4096)
HARMONICS = {1: 0.32, 2: 0.050, 5: 4.8e-5}
#: Directions of the features that are smaller, over the largest, are left out of the fit: their coefficients are noise.
RCOND = 3e-3
WAVES = (0.1, 0.25, 0.5, 1.0, 2.0)
#: What the regression is told of an event besides its value.
TOLD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "no time": lambda t, _: torch.ones_like(t).unsqueeze(-1),
    "its place": lambda _, place: torch.nn.functional.one_hot(place.long()).double(),
    "Bochner": lambda t, _: Bochner(16, shortest=0.25, longest=20.0)(t),
    "inverse CDF": lambda t, _: InverseCDF(16, shortest=0.25, longest=20.0)(t),
    "Mercer": lambda t, _: Mercer(periods=4, harmonics=2, shortest=0.5, longest=20.0)(t),
}


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {
        "seeds": list(range(seeds or (1 if quick else 5))),
        "draws": 2 if quick else 20,
        "bags": 300 if quick else 3000,
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """Kernels, invariance, and the regression by what it is told of time and by how fast the wave is."""
    draws, seeds, count = configuration["draws"], configuration["seeds"], configuration["bags"]

    def told(name: str) -> Chunk:
        return Chunk(
            name,
            len(WAVES) * len(seeds),
            lambda _, tick: [[_told(TOLD[name], wave, seed, count, tick) for seed in seeds] for wave in WAVES],
        )

    return [
        Chunk("sup error", draws, lambda _, tick: [_sup_errors(seed, tick) for seed in range(draws)]),
        Chunk("Mercer error", 1, lambda _, tick: [_mercer_error(j, tick) for j in HARMONICS]),
        Chunk("translation", 1, lambda _, tick: _translation(tick)),
        *map(told, TOLD),
    ]


def _sup_errors(seed: int, tick: Tick) -> list[float]:
    """max over [0, 10] of |phi(t).phi(0) - exp(-t^2 / 2)| for w ~ N(0, 1)."""
    t, generator = torch.linspace(0, 10, 400), torch.Generator().manual_seed(seed)
    found = []
    for count in FREQUENCIES:
        phi = Bochner(2 * count)
        with torch.no_grad():
            phi.log_frequency.copy_(torch.randn(count, generator=generator).abs().log())
            kernel = (phi(t) @ phi(t[:1]).T).squeeze(1)
        found.append(float((kernel - torch.exp(-(t**2) / 2)).abs().max()))
    tick()
    return found


def _mercer_error(harmonics: int, tick: Tick) -> float:
    """Of exp(cos(2 pi t / 3)) = I_0(1) + 2 sum_j I_j(1) cos(2 pi j t / 3), cut after ``harmonics``."""
    phi = Mercer(periods=1, harmonics=harmonics).double()
    c = torch.tensor([iv(0, 1.0), *(2 * iv(j, 1.0) for j in range(1, harmonics + 1))], dtype=torch.float64)
    t = torch.linspace(0, 6, 500, dtype=torch.float64)
    with torch.no_grad():
        phi.raw.copy_(torch.log(torch.expm1(c)).unsqueeze(0))
        phi.log_frequency.fill_(math.log(2 * math.pi / 3.0))
        kernel = (phi(t) @ phi(t[:1]).T).squeeze(1)
    tick()
    return float((kernel - torch.exp(torch.cos(2 * math.pi * t / 3.0))).abs().max())


def _translation(tick: Tick) -> dict[str, float]:
    """How much phi(s).phi(t) changes when both move by 7.3: ours, and with frequencies of their own for the sines."""
    generator = torch.Generator().manual_seed(0)
    t = torch.rand(30, generator=generator, dtype=torch.float64) * 50
    found = {}
    for name, phi in {"ours": Bochner(64).double(), "Mercer": Mercer().double()}.items():
        with torch.no_grad():
            found[name] = float((phi(t) @ phi(t).T - phi(t + 7.3) @ phi(t + 7.3).T).abs().max())
    cos, sin = torch.randn(2, 32, generator=generator, dtype=torch.float64)

    def apart(at: Tensor) -> Tensor:
        waves = torch.cat([torch.cos(at[:, None] * cos), torch.sin(at[:, None] * sin)], 1) / math.sqrt(32)
        return waves @ waves.T

    tick()
    return found | {"apart": float((apart(t) - apart(t + 7.3)).abs().max())}


def _told(encode: Callable[[Tensor, Tensor], Tensor], wave: float, seed: int, count: int, tick: Tick) -> float:
    """Correlation on new bags of a least-squares fit to sum_i x_i phi(i), the best linear use of an encoding."""
    task = EventTimesTask(frequency=wave)

    def read(part: int) -> tuple[Any, Any]:
        x, y = task.sample(count, seed=2 * seed + part, dtype=torch.float64)
        place = torch.arange(task.events, dtype=torch.float64).expand(x.shape[:2])
        with torch.no_grad():
            phi = encode(x[..., 1], place)
        return torch.einsum("bn,bnk->bk", x[..., 0], phi.double()).numpy(), y.numpy()

    (features, y), (new, wanted) = read(0), read(1)
    tick()
    return float(np.corrcoef(new @ np.linalg.lstsq(features, y, rcond=RCOND)[0], wanted)[0, 1])


def report(configuration: dict[str, Any], results: Results) -> Report:  # noqa: ARG001  (the protocol)
    """Errors of kernels beside their bounds; correlations in their order."""
    rows: list[Row] = []
    for i, count in enumerate(FREQUENCIES):
        errors = [one[i] for one in results["sup error"]]
        rows.append(bounded(f"Bochner, {count:,} frequencies: sup error", errors, below=3.5 / math.sqrt(count)))
    for (harmonics, asked), error in zip(HARMONICS.items(), results["Mercer error"], strict=True):
        rows.append(near(f"Mercer, {harmonics} harmonics: largest error", error, asked, within=0.05, share=True))
    for name in ("ours", "Mercer"):
        said = "Bochner" if name == "ours" else name
        rows.append(bounded(f"{said}: change under translation", results["translation"][name], below=1e-12))
    rows.append(bounded("the same, sines with frequencies of their own", results["translation"]["apart"], says="not 0"))
    at = WAVES.index(0.5)
    best = EventTimesTask(frequency=0.5).bayes_pcc
    before = 0.0
    for name in ("no time", "its place"):
        rows.append(bounded(f"event-times, {name}: correlation", results[name][at], above=before))
        before = float(np.mean(results[name][at])) + 0.1
    rows.append(bounded("event-times, Bochner: correlation", results["Bochner"][at], above=before))
    for name in ("Bochner", "inverse CDF", "Mercer"):
        rows.append(near(f"the same, {name}, against the best possible", results[name][at], best, within=0.02))
    judged = [row for row in rows if row["holds"]]
    held = sum(row["holds"] == "yes" for row in judged)
    return Report(
        rows, {"held": held, "of": len(judged)}, {"event-times": _figure(results)}, [f"{held} of {len(judged)} hold"]
    )


def _figure(results: Results) -> Figure:
    mean = [float(np.mean([one[i] for one in results["sup error"]])) for i in range(len(FREQUENCIES))]
    kernels = [
        Line(label="sup error", x=FREQUENCIES, y=mean, markers=True),
        Line(label="3.5 / sqrt(frequencies)", x=FREQUENCIES, y=[3.5 / math.sqrt(n) for n in FREQUENCIES], dashed=True),
    ]
    told = [Line(label=name, x=WAVES, y=[float(np.mean(one)) for one in results[name]], markers=True) for name in TOLD]
    best = [EventTimesTask(frequency=wave).bayes_pcc for wave in WAVES]
    told.append(Line(label="best possible", x=WAVES, y=best, dashed=True))
    return Figure(
        title="What is the time between events worth?",
        panels=[
            Panel(title="Bochner and its kernel", x="frequencies", y="error", lines=kernels, log_x=True, log_y=True),
            Panel(
                title="events that count by a wave of their time",
                x="frequency of the wave",
                y="correlation",
                lines=told,
                log_x=True,
            ),
        ],
        columns=2,
    )


#: For the pages: what stands between the marks of that name.
BLOCKS = block("event-times")
