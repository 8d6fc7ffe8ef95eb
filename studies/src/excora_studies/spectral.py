"""Study ``spectral``: when does the signal of pooled sequences leave the noise, and by which weights?

Closed forms of :mod:`excora.theory.spectral` beside covariances of drawn sequences: two classes of tokens, mu apart,
and positions whose classes agree with the label by q_l. gamma = 1/4, delta = 1/2 throughout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.theory.spectral import (
    best_weights,
    bulk_edges,
    critical,
    density,
    gain_of,
    harmonic_weights,
    recovery,
    sequences_needed,
)
from excora_studies.acceptance import Row, block, near
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Chunk, Report, Results, Tick

Array = NDArray[np.float64]
GAMMA, DELTA, LENGTH = 0.25, 0.5, 16
#: name: (q of every position, r = |mu|^2, and what is asked: largest eigenvalue / kappa, squared cosine)
CASES: dict[str, tuple[float, float, float, float]] = {
    "R = I, r = 3": (0.0, 3.0, 5.056, 0.707),
    "R = I, r = 1.5": (0.0, 1.5, 3.889, 0.345),
    "R = I, r = 1, below the threshold": (0.0, 1.0, 3.747, 0.0),
    "R = 0.25, r = 0.5": (0.5, 0.5, 6.213, 0.448),
    "R = 0.25, r = 1": (0.5, 1.0, 8.510, 0.629),
    "R = 0.64, r = 0.3": (0.8, 0.3, 9.842, 0.358),
    "R = 0.64, r = 0.1": (0.8, 0.1, 7.763, 0.156),
}
EARLY: Array = (0.9 * 0.8 ** np.arange(LENGTH)).astype(np.float64)
SIGNAL = 1.0
SIGNALS = np.linspace(0.05, 1.5, 60)


def _correlation(q: Array) -> Array:
    return np.outer(q, q) + np.diag(1.0 - q**2)


def weights_for(q: Array) -> dict[str, Array]:
    """The three sets of weights without a parameter, by name."""
    return {
        "mean": np.full(LENGTH, 1 / LENGTH),
        "harmonic": harmonic_weights(LENGTH),
        "top eigenvector": best_weights(_correlation(q)),
    }


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {"seeds": list(range(seeds or (1 if quick else 12))), "dim": 80 if quick else 800, "length": LENGTH}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a case; the three weights where early positions tell more; one spectrum for the picture."""
    dim, seeds = configuration["dim"], configuration["seeds"]

    def case(name: str) -> Chunk:
        q, signal, *_ = CASES[name]
        mean = np.full(LENGTH, 1 / LENGTH)
        return Chunk(name, len(seeds), lambda _, tick: _seen(dim, np.full(LENGTH, q), mean, signal, seeds, tick))

    def early(name: str) -> Chunk:
        weights = weights_for(EARLY)[name]
        return Chunk(f"early, {name}", len(seeds), lambda _, tick: _seen(dim, EARLY, weights, SIGNAL, seeds, tick))

    return [
        *map(case, CASES),
        *map(early, weights_for(EARLY)),
        Chunk("spectrum", 1, lambda _, tick: _values(dim, tick)),
    ]


def pooled_covariance(dim: int, q: Array, weights: Array, signal: float, seed: int) -> tuple[Array, Array]:
    """The covariance / kappa of 4 dim pooled sequences over 2 dim tokens, and the direction of mu."""
    rng, half, count = np.random.default_rng(seed), dim, 4 * dim
    mu = rng.normal(size=dim)
    mu *= np.sqrt(signal) / np.linalg.norm(mu)
    table = rng.normal(size=(2 * half, dim))
    table[:half] += mu
    table[half:] -= mu
    label = rng.integers(2, size=count)
    x = np.zeros((count, dim))
    for weight, tells in zip(weights, q, strict=True):
        side = np.where(rng.random(count) < (1 + tells) / 2, label, 1 - label)
        x += weight * table[rng.integers(half, size=count) + half * side]
    x -= x.mean(0)
    return x.T @ x / count / (weights @ weights), mu / np.linalg.norm(mu)


def _seen(dim: int, q: Array, weights: Array, signal: float, seeds: list[int], tick: Tick) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"outlier": [], "alignment": []}
    for seed in seeds:
        covariance, direction = pooled_covariance(dim, q, weights, signal, seed)
        values, vectors = np.linalg.eigh(covariance)
        found["outlier"].append(float(values[-1]))
        found["alignment"].append(float((vectors[:, -1] @ direction) ** 2))
        tick()
    return found


def _values(dim: int, tick: Tick) -> list[float]:
    covariance, _ = pooled_covariance(dim, np.zeros(LENGTH), np.full(LENGTH, 1 / LENGTH), 3.0, 99)
    tick()
    return [float(x) for x in np.linalg.eigvalsh(covariance)]


def report(configuration: dict[str, Any], results: Results) -> Report:  # noqa: ARG001  (the protocol)
    """The closed forms, then what the draws show of them."""
    rows: list[Row] = []
    for gamma, delta, at, upper in ((0.1, 0.1, 0.5, 2.16), (0.25, 0.5, 1.0545467, 3.7466902)):
        rows.append(near(f"threshold, gamma {gamma}, delta {delta}", critical(gamma, delta), at, within=1e-7))
        rows.append(near(f"upper edge, gamma {gamma}, delta {delta}", bulk_edges(gamma, delta)[1], upper, within=1e-7))
    for name, (_, _, outlier, alignment) in CASES.items():
        rows.append(near(f"{name}: eigenvalue", results[name]["outlier"], outlier, within=0.05, share=True))
        rows.append(near(f"{name}: alignment", results[name]["alignment"], alignment, within=0.05))
    gains = {name: gain_of(weights, _correlation(EARLY)) for name, weights in weights_for(EARLY).items()}
    for (name, gain), asked in zip(gains.items(), (2.0549, 2.7343, 2.7882), strict=True):
        rows.append(near(f"early positions tell: alpha/kappa, {name}", gain, asked, within=1e-4))
        expected = recovery(SIGNAL, gain, GAMMA, DELTA).alignment
        rows.append(near(f"the same: alignment, {name}", results[f"early, {name}"]["alignment"], expected, within=0.05))
    late = gain_of(harmonic_weights(LENGTH), _correlation(EARLY)[::-1, ::-1])
    rows.append(near("late positions tell: alpha/kappa, harmonic", late, 1.0992, within=1e-4))
    held = sum(row["holds"] == "yes" for row in rows)
    return Report(
        rows, {"held": held, "of": len(rows)}, {"spectral": _figure(results)}, [f"{held} of {len(rows)} hold"]
    )


def _figure(results: Results) -> Figure:
    upper = bulk_edges(GAMMA, DELTA)[1]
    x = np.linspace(0.0, 1.4 * upper, 240)
    counts, edges = np.histogram(results["spectrum"], bins=np.linspace(0.0, 1.4 * upper, 45))
    middle, height = (edges[1:] + edges[:-1]) / 2, counts / (len(results["spectrum"]) * np.diff(edges))
    lines = [
        Line(label="theory", x=x.tolist(), y=np.minimum(density(x, GAMMA, DELTA), 1.5).tolist()),
        Line(label="seen", x=middle.tolist(), y=height.tolist(), joined=False),
    ]
    spectrum = Panel(
        title=f"eigenvalues, R = I, r = 3 (noise ends at {upper:.2f})", x="eigenvalue", y="density", lines=lines
    )
    gains = {name: gain_of(weights, _correlation(EARLY)) for name, weights in weights_for(EARLY).items()}
    aligned = [
        Line(label=name, x=SIGNALS.tolist(), y=[recovery(r, gain, GAMMA, DELTA).alignment for r in SIGNALS])
        for name, gain in gains.items()
    ]
    seen = [
        Line(
            label=f"{name} | seen", x=[SIGNAL], y=[float(np.mean(results[f"early, {name}"]["alignment"]))], joined=False
        )
        for name in gains
    ]
    needed = [
        Line(label=name, x=SIGNALS.tolist(), y=_finite([sequences_needed(r, gain, 300, 1000) for r in SIGNALS]))
        for name, gain in gains.items()
    ]
    decays = np.linspace(0.6, 1.0, 30)
    worth = [
        Line(label=name, x=decays.tolist(), y=[_worth(name, 0.9 * d ** np.arange(LENGTH)) for d in decays])
        for name in gains
    ]
    return Figure(
        title="When does the signal of pooled sequences separate?",
        panels=[
            spectrum,
            Panel(title="early positions tell more", x="signal r", y="alignment", lines=[*aligned, *seen]),
            Panel(title="width 300, 1,000 tokens", x="signal r", y="sequences needed", lines=needed, log_y=True),
            Panel(title="q_l = 0.9 decay^(l-1)", x="decay", y="alpha / kappa", lines=worth),
        ],
        columns=2,
    )


def _finite(values: list[float]) -> list[float | None]:
    return [value if np.isfinite(value) and value < 1e6 else None for value in values]


def _worth(name: str, q: Array) -> float:
    return gain_of(weights_for(q)[name], _correlation(q))


#: For the pages: what stands between the marks of that name.
BLOCKS = block("spectral")
