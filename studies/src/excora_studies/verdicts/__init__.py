"""Evidence for the verdicts: real runs, and runs of the plateau task, with a cause that is made.

On each real table and bag set: labels permuted, predictions rescaled and shifted, training far past the best epoch,
stopped early, half of the informative columns removed, attention frozen uniform, and nothing at all. What no real set
shows on demand (capacity, saturation, a starved optimiser) is trained on :class:`PlateauTask`. The rules were set on
the sets of :mod:`.seen` and :mod:`.fresh` and some planted seeds; those of :mod:`.newest` were looked at once.

What is kept is the runs, in numbers, and apart from them what simple models reach; the report judges them by the rules
as they are, so a changed rule, or a further simple model, takes no training.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from excora_studies.runner import Chunk, Report, Results
from excora_studies.verdicts import page, planted, real, sets
from excora_studies.verdicts.fresh import FRESH, LOOKED
from excora_studies.verdicts.newest import NEWEST
from excora_studies.verdicts.page import BLOCKS
from excora_studies.verdicts.seen import SEEN

__all__ = ["BLOCKS", "chunks", "configure", "report", "table_of"]


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the runs depend on, but for the folder of the files."""
    quick = preset == "quick"
    count = seeds or 1
    return {
        "tuning": ["Auto MPG"] if quick else [*SEEN, *LOOKED, *FRESH],
        "measured": ["length of sepals"] if quick else list(NEWEST),
        "seeds": {"tuning": 1, "measured": count},
        "planted": {cause: 3 * count if cause == "healthy" else count for cause in planted.CAUSES},
        "rows": sets.ROWS,
        "epochs": [real.LONG, real.USUAL, real.SHORT],
        "bags": planted.BAGS,
    }


def table_of(key: str) -> str:
    """The file that keeps a part: some of them can be computed alone."""
    return "simple" if key.startswith("simple, ") else "planted" if key.startswith("planted: ") else "real"


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """For each set and seed, and for each planted cause, a chunk of runs and one of what simple models reach."""

    def real_set(name: str, seed: int) -> list[Chunk]:
        def compute(look: Callable[..., Any]) -> Any:
            return lambda _, tick: (tick(), look(name, seed, data))[1]

        key = f"real: {name}, seed {seed}"
        return [Chunk(key, 1, compute(real.record)), Chunk(f"simple, {key}", 1, compute(real.reached))]

    def planted_cause(cause: str) -> list[Chunk]:
        seeds = range(planted.FIRST, planted.FIRST + configuration["planted"][cause])

        def compute(look: Callable[..., Any]) -> Any:
            return lambda _, tick: [(tick(), look(cause, seed))[1] for seed in seeds]

        key, count = f"planted: {cause}", len(seeds)
        return [Chunk(key, count, compute(planted.record)), Chunk(f"simple, {key}", count, compute(planted.reached))]

    found = [
        real_set(name, seed)
        for kind in ("tuning", "measured")
        for seed in range(configuration["seeds"][kind])
        for name in configuration[kind]
    ]
    return [one for both in [*found, *map(planted_cause, configuration["planted"])] for one in both]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """What is said of the runs that are there, and how much of it is right."""
    return page.report(configuration, results)
