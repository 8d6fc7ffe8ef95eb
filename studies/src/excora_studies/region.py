"""Where the paper's gains are possible at all: the closed forms of the task over its free constants.

At a wanted sigma~ two constants stay free: how the key's deviation divides into signal eta and marker nu, and the
label's kappa. Softmax ends at ``attention_pcc(1)``, our pool at ``attention_pcc(cap)``, and a calibrated prediction has
MSE = var(y) (1 - PCC^2): so gain and reduction follow without training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from excora.tasks.plateau import LEVELS, PlateauTask
from excora_studies.figures import Figure, Heat, Panel
from excora_studies.markdown import Contents, table

PAPER_GAIN = (4.80, 5.76, 4.68, 3.05)
PAPER_REDUCTION = (20.3, 40.8, 54.0, 66.7)
CAP = 4.0  # of ECAPool


def task_at(level: float, *, stretch: float, marker: float, constant: bool = False) -> PlateauTask:
    """The task with sigma~ = level, nu = marker eta and kappa = stretch eta (``constant``: kappa = stretch)."""
    task = PlateauTask(eta=1.0, nu=marker).with_dispersion(level)
    return dataclasses.replace(task, kappa=stretch if constant else stretch * task.eta)


def expected(task: PlateauTask, cap: float = CAP) -> tuple[float, float]:
    """PCC gain of extrapolation over softmax and its MSE reduction, both in %, at the optimum of each."""
    softmax, ours = task.attention_pcc(1.0), task.attention_pcc(cap)
    return 100.0 * (ours / softmax - 1.0), 100.0 * (1.0 - (1.0 - ours**2) / (1.0 - softmax**2))


def margin(level: int, *, stretch: float, marker: float, constant: bool = False) -> float:
    """Expected PCC gain above the paper's at level number ``level``, in points; at most -1 if the MSE falls short."""
    gain, reduction = expected(task_at(LEVELS[level], stretch=stretch, marker=marker, constant=constant))
    above = gain - PAPER_GAIN[level]
    return above if reduction >= PAPER_REDUCTION[level] else min(above, -1.0)


def interval(level: int, *, marker: float, constant: bool = False) -> tuple[float | None, float | None]:
    """Smallest and largest kappa/eta (``constant``: kappa) up to 12 in steps of 0.05 with the paper's gains."""
    steps = [0.05 * i for i in range(1, 241)]
    good = [s for s in steps if margin(level, stretch=s, marker=marker, constant=constant) >= 0]
    return (min(good), max(good)) if good else (None, None)


def region(markers: Sequence[float]) -> dict[str, dict[str, list[tuple[float | None, float | None]]]]:
    """:func:`interval` of each level, for both rules (kappa = c eta, kappa = c) and each nu/eta."""
    return {
        rule: {
            f"{marker:.3g}": [interval(level, marker=marker, constant=constant) for level in range(len(LEVELS))]
            for marker in markers
        }
        for rule, constant in (("kappa = c eta", False), ("kappa = c", True))
    }


def figure() -> Figure:
    """A map for each level: expected PCC gain above the paper's, over nu/eta and kappa/eta."""
    markers = [0.2 + 0.1 * i for i in range(24)]
    stretches = [1.0 + 0.1 * i for i in range(51)]
    panels = [
        Panel(
            title=f"sigma~ = {level:.2f}: PCC gain - {PAPER_GAIN[index]} points",
            x="nu / eta",
            y="kappa / eta",
            heat=Heat(
                x=markers,
                y=stretches,
                z=[[margin(index, stretch=s, marker=m) for m in markers] for s in stretches],
                limit=15.0,
            ),
        )
        for index, level in enumerate(LEVELS)
    ]
    title = "Where the paper's gains are possible (blue, inside the line), by the closed forms"
    return Figure(title=title, panels=panels, columns=2)


def block(contents: Contents) -> str:
    """From which constant on the paper's gains are possible, by rule, nu/eta and level."""
    stored = contents["synthetic"]["summary"]["region"]
    rows = [
        [rule.replace("kappa", "κ").replace("eta", "η"), marker, *(_span(span) for span in spans)]
        for rule, by_marker in stored.items()
        for marker, spans in by_marker.items()
    ]
    return table(
        ("rule", "ν/η", *(f"c at σ~ = {level:.2f}" for level in contents["synthetic"]["configuration"]["levels"])), rows
    )


def _span(span: Sequence[float | None]) -> str:
    low, high = span
    if low is None or high is None:
        return "nowhere"
    return f"≥ {low:.2f}" if high >= 12.0 else f"{low:.2f} to {high:.2f}"
