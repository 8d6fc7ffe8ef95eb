"""Study ``single-location``: does attention find the one informative token, from where, and how sure must it be?

Projected gradient descent on the closed-form risk of :mod:`excora.theory.single_location`, exactly, in its five
overlaps; the settings of Marion et al. (ICLR 2025), d = 400, L = 10. Two controls must fail: a constant lambda of 0.1
from the sphere leaves a part of the runs at the saddle, a constant 0.9 all of them far from the token.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from excora.theory.single_location import SingleLocation
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table
from excora_studies.runner import Chunk, Report, Results, Tick

#: name: (manifold start, lambda at the start, its decay a step, rate, steps)
RUNS: dict[str, tuple[bool, float, float, float, int]] = {
    "manifold, lambda 0.1": (True, 0.1, 0.0, 4e-3, 20_000),
    "sphere, lambda 1/(1 + t/10,000)": (False, 1.0, 1e-4, 4e-3, 120_000),
    "sphere, lambda 0.1": (False, 0.1, 0.0, 4e-3, 20_000),
    "sphere, lambda 0.9": (False, 0.9, 0.0, 1e-3, 120_000),
}
#: On drawn sequences: width, lambda at the start, its decay a step, rate, steps, runs
SAMPLED = (80, 2.0, 1e-4, 1e-3, 200_000, 10)
SAMPLES = "sphere, d = 80, batches of 5, lambda 2/(1 + t/10,000)"
LOOKS = 100
MANY = 1200
WIDTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 100_000)


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    return {
        "seeds": list(range(seeds or (2 if preset == "quick" else 30))),
        "shorter": 100 if preset == "quick" else 1,
        "dim": 400,
        "length": 10,
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk for each way to train, all seeds in it; then the curves of the best risk."""
    setting = SingleLocation(dim=configuration["dim"], length=configuration["length"])
    count = len(configuration["seeds"])

    def descent(name: str) -> Chunk:
        return Chunk(name, LOOKS, lambda _, tick: _descend(setting, count, RUNS[name], configuration["shorter"], tick))

    many = MANY // configuration["shorter"]
    return [
        *(descent(name) for name in RUNS),
        Chunk(SAMPLES, LOOKS, lambda _, tick: _sampled(configuration["length"], configuration["shorter"], tick)),
        Chunk("many starts", 1, lambda _, tick: _lost(setting, many, tick)),
        Chunk("best risk", 1, lambda _, tick: _best(tick)),
    ]


def _descend(
    setting: SingleLocation, runs: int, how: tuple[bool, float, float, float, int], shorter: int, tick: Tick
) -> dict[str, Any]:
    manifold, first, decay, rate, steps = how
    steps //= shorter
    state = setting.start(runs, seed=0, manifold=manifold)
    done, looks = 0, [state]
    for look in range(LOOKS):
        until = steps * (look + 1) // LOOKS
        sharpness = functools.partial(_sharpness, first, decay, done)
        state = setting.descend(state, steps=until - done, rate=rate, sharpness=sharpness)
        done = until
        looks.append(state)
        tick()
    return _history(setting, looks, steps, first / (1 + decay * max(steps - 1, 0)))


def _sampled(length: int, shorter: int, tick: Tick) -> dict[str, Any]:
    """Projected stochastic gradient descent, label noise 0.1."""
    dim, first, decay, rate, steps, runs = SAMPLED
    steps //= shorter
    setting, rng = SingleLocation(dim=dim, length=length), np.random.default_rng(0)
    looks = [setting.start(runs, seed=0)]
    for look in range(LOOKS):
        done, until = steps * look // LOOKS, steps * (look + 1) // LOOKS
        how: dict[str, Any] = {"rate": rate, "sharpness": functools.partial(_sharpness, first, decay, done), "rng": rng}
        looks.append(setting.descend_on_samples(looks[-1], steps=until - done, batch=5, noise=0.1, **how))
        tick()
    return _history(setting, looks, steps, first / (1 + decay * max(steps - 1, 0)))


def _history(setting: SingleLocation, looks: list[Any], steps: int, end: float) -> dict[str, Any]:
    history, state = np.abs(np.stack(looks)), looks[-1]  # (looks, runs, 5)
    return {
        "steps": steps,
        "kappa": history[:, :, 0].T.tolist(),
        "nu": history[:, :, 1].T.tolist(),
        "risk": setting.excess_risk(state, end).tolist(),
        "off manifold": float(np.sqrt((state[:, 2:] ** 2).sum(1)).max()),
    }


def _sharpness(first: float, decay: float, begun: int, step: int) -> float:
    return first / (1 + decay * (begun + step))


def _lost(setting: SingleLocation, many: int, tick: Tick) -> dict[str, int]:
    """How many of many starts from the sphere the schedule leads astray, which shows within 12,000 steps."""
    start = setting.start(many, seed=1)
    end = setting.descend(start, steps=12_000 * many // MANY, rate=4e-3, sharpness=lambda t: 1 / (1 + 1e-4 * t))
    tick()
    return {"starts": many, "lost": int((np.abs(end[:, 1]) < 0.9).sum())}


def _best(tick: Tick) -> dict[str, list[float]]:
    tick()
    return {
        f"L = {length}": [SingleLocation(dim=d, length=length).oracle_risk()[0] for d in WIDTHS]
        for length in (2, 10, 100)
    }


def report(configuration: dict[str, Any], results: Results) -> Report:
    """How many runs find the token, and at what risk."""
    rows = []
    for name in (*RUNS, SAMPLES):
        one = results[name]
        end = np.minimum([run[-1] for run in one["kappa"]], [run[-1] for run in one["nu"]])
        rows.append(
            {
                "start and lambda": name,
                "steps": one["steps"],
                "found": f"{int((end > 0.9).sum())} of {len(end)}",
                "least overlap": float(end.min()),
                "risk": float(np.mean(one["risk"])),
                "risk sd": float(np.std(one["risk"])),
            }
        )
    setting = SingleLocation(dim=configuration["dim"], length=configuration["length"])
    best, lost = setting.oracle_risk(), results["many starts"]
    notes = [
        f"the best that the true directions can do: {best[0]:.4f} with lambda {best[1]:.3f}; "
        f"the best linear predictor: {setting.linear_risk:.4f}",
        "with the schedule {lost} of {starts} further starts end with k at v*, not at k*".format(
            **results["many starts"]
        ),
    ]
    summary = {"oracle risk": best[0], "linear risk": setting.linear_risk} | lost
    return Report(rows, summary, {"single-location": _figure(results)}, notes)


def _figure(results: Results) -> Figure:
    panels = []
    for name in (*RUNS, SAMPLES):
        one = results[name]
        x = [one["steps"] * look / LOOKS for look in range(LOOKS + 1)]
        lines = [Line(label=f"|{key}|", x=x, y=run) for key in ("kappa", "nu") for run in one[key][:10]]
        panels.append(Panel(title=name, x="step", y="overlap", lines=lines))
    lines = [Line(label=length, x=WIDTHS, y=risks, markers=True) for length, risks in results["best risk"].items()]
    panels.append(
        Panel(title="the least risk of attention", x="width d", y="excess risk", lines=lines, log_x=True, log_y=True)
    )
    return Figure(title="Does attention find the one informative token?", panels=panels, columns=2)


def _block(contents: Contents) -> str:
    rows = [
        [
            row["start and lambda"],
            f"{row['steps']:,}",
            row["found"],
            number(row["least overlap"], 4),
            f"{row['risk']:.4f} ± {row['risk sd']:.4f}",
        ]
        for row in contents["single-location"]["table"]
    ]
    found = contents["single-location"]["summary"]
    shown = table(("start and lambda", "steps", "found the token", "least overlap", "excess risk"), rows)
    said = f"Of {found['starts']:,} further starts with the schedule {found['lost']} end with k at v\\*, not at k\\*."
    return f"{shown}\n\n{said}"


#: For the pages: what stands between the marks of that name.
BLOCKS = {"single-location": _block}
