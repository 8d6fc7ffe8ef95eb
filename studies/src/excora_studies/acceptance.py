"""Rows of a study whose answers are known: what was asked for beside what came out, and whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from excora_studies.markdown import Contents, table

Row = dict[str, Any]


def near(case: str, ours: float | list[float], asked: float, *, within: float, share: bool = False) -> Row:
    """A number that must lie within ``within`` of ``asked``, or within that ``share`` of it; several: their mean.

    >>> near("edge", 2.16, 2.16, within=1e-9)["asked"]
    '2.16 ± 1e-09'
    >>> near("outlier", [5.0, 5.2], 5.056, within=0.05, share=True)["holds"]
    'yes'
    """
    mean, spread = _mean(ours)
    room = within * abs(asked) if share else within
    text = f"{asked:.5g} ± {100 * within:g} %" if share else f"{asked:.5g} ± {within:.3g}"
    return _row(case, text, mean, spread, abs(mean - asked) <= room)


def bounded(
    case: str, ours: float | list[float], *, below: float | None = None, above: float | None = None, says: str = ""
) -> Row:
    """A number that must lie below or above a bound; without one it is shown as it is, beside what ``says``.

    >>> bounded("ratio", 0.68, below=0.75)["asked"]
    '< 0.75'
    """
    mean, spread = _mean(ours)
    if below is not None:
        return _row(case, f"< {below:.4g}", mean, spread, mean < below)
    if above is not None:
        return _row(case, f"> {above:.4g}", mean, spread, mean > above)
    return _row(case, says, mean, spread, None)


def _mean(ours: float | list[float]) -> tuple[float, float | None]:
    if isinstance(ours, list):
        return float(np.mean(ours)), float(np.std(ours, ddof=1)) if len(ours) > 1 else None
    return float(ours), None


def _row(case: str, asked: str, ours: float, spread: float | None, holds: bool | None) -> Row:
    shown = {None: "", True: "yes", False: "no"}[holds]
    return {"case": case, "asked": asked, "ours": ours, "ours sd": spread, "holds": shown}


def block(name: str) -> dict[str, Callable[[Contents], str]]:
    """BLOCKS of a study with such rows."""

    def shown(contents: Contents) -> str:
        rows = contents[name]["table"]
        cells = [[row["case"], row["asked"], _cell(row["ours"], row["ours sd"]), row["holds"]] for row in rows]
        return table(("case", "asked", "ours", "holds"), cells)

    return {name: shown}


def _cell(value: float, spread: float | None) -> str:
    text = f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"
    return text if spread is None else f"{text} ± {spread:.2g}"
