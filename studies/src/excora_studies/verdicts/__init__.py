"""Evidence for the verdicts: real runs, and runs of the plateau task, with a cause that is made.

On each of fourteen real tables and bag sets: labels permuted, predictions rescaled and shifted, training far past the
best epoch, stopped early, half of the informative columns removed, attention frozen uniform, and nothing at all. What
no real set shows on demand (capacity, saturation, a starved optimiser) is trained on :class:`PlateauTask`. Thresholds
are set on the sets of ``TUNING`` and on planted seeds from 1000 on; the others are looked at once.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from excora.diagnosis.evidence import Thresholds
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.verdicts import page, planted, real, sets
from excora_studies.verdicts.page import BLOCKS

__all__ = ["BLOCKS", "chunks", "configure", "report", "table_of"]


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on, but for the folder of the files."""
    quick = preset == "quick"
    count = seeds or (1 if quick else 2)
    return {
        "tuning": ["Auto MPG"] if quick else list(sets.TUNING),
        "measured": ["Servo"] if quick else list(sets.MEASURED),
        "seeds": 1 if quick else count - 1 or 1,
        "planted": {cause: 2 * count if cause == "healthy" else count for cause in planted.CAUSES},
        "rows": sets.ROWS,
        "epochs": [real.LONG, real.USUAL, real.SHORT],
        "bags": planted.BAGS,
        "thresholds": dataclasses.asdict(Thresholds()),
    }


def table_of(key: str) -> str:
    """The file that keeps a part: some of them can be computed alone."""
    return "planted" if key.startswith("planted: ") else "real"


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk for each set, and for each planted cause."""

    def real_set(name: str) -> Chunk:
        def compute(_: Results, tick: Tick) -> Any:
            rows: list[dict[str, Any]] = []
            for seed in range(configuration["seeds"]):
                rows += [real.row(name, seed, one) for one in real.runs(name, seed, data)]
                tick()
            return rows

        return Chunk(f"real: {name}", configuration["seeds"], compute)

    def planted_cause(cause: str) -> Chunk:
        def compute(_: Results, tick: Tick) -> Any:
            rows = []
            for seed in range(configuration["planted"][cause]):
                rows.append(planted.judge(cause, seed))
                tick()
            return rows

        return Chunk(f"planted: {cause}", configuration["planted"][cause], compute)

    found = [real_set(name) for name in (*configuration["tuning"], *configuration["measured"])]
    return [*found, *(planted_cause(cause) for cause in configuration["planted"])]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Confusion matrices of the parts that are there."""
    return page.report(configuration, results)
