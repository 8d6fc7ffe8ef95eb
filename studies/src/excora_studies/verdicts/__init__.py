"""Evidence for the verdicts: real runs, and runs of the plateau task, with a cause that is made.

On each real table and bag set: labels permuted, predictions rescaled and shifted, training far past the best epoch,
stopped early, half of the informative columns removed, attention frozen uniform, and nothing at all. What no real set
shows on demand (capacity, saturation, a starved optimiser) is trained on :class:`PlateauTask`. The rules were set on
the sets of :mod:`.seen`, the first of :mod:`.fresh` and some planted seeds; the others were looked at once.

What is kept is the runs, in numbers; the report judges them by the rules as they are, so a changed rule takes no
training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.verdicts import page, planted, real, sets
from excora_studies.verdicts.fresh import FRESH, LOOKED
from excora_studies.verdicts.page import BLOCKS
from excora_studies.verdicts.seen import SEEN

__all__ = ["BLOCKS", "chunks", "configure", "report", "table_of"]


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the runs depend on, but for the folder of the files."""
    quick = preset == "quick"
    count = seeds or 1
    return {
        "tuning": ["Auto MPG"] if quick else [*SEEN, *LOOKED],
        "measured": ["workers"] if quick else list(FRESH),
        "seeds": {"tuning": 1, "measured": count},
        "planted": {cause: 3 * count if cause == "healthy" else count for cause in planted.CAUSES},
        "rows": sets.ROWS,
        "epochs": [real.LONG, real.USUAL, real.SHORT],
        "bags": planted.BAGS,
    }


def table_of(key: str) -> str:
    """The file that keeps a part: some of them can be computed alone."""
    return "planted" if key.startswith("planted: ") else "real"


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk for each set and seed, and for each planted cause."""

    def real_set(name: str, seed: int) -> Chunk:
        def compute(_: Results, tick: Tick) -> Any:
            tick()
            return real.record(name, seed, data)

        return Chunk(f"real: {name}, seed {seed}", 1, compute)

    def planted_cause(cause: str) -> Chunk:
        def compute(_: Results, tick: Tick) -> Any:
            found = []
            for seed in range(planted.FIRST, planted.FIRST + configuration["planted"][cause]):
                found.append(planted.record(cause, seed))
                tick()
            return found

        return Chunk(f"planted: {cause}", configuration["planted"][cause], compute)

    found = [
        real_set(name, seed)
        for kind in ("tuning", "measured")
        for seed in range(configuration["seeds"][kind])
        for name in configuration[kind]
    ]
    return [*found, *(planted_cause(cause) for cause in configuration["planted"])]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """What is said of the runs that are there, and how much of it is right."""
    return page.report(configuration, results)
