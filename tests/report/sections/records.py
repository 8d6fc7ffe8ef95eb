"""Small records for the sections, with round figures."""

from __future__ import annotations

from typing import Any

from excora.report import ComparisonRecord, RunRecord


def score(pcc: float | None, mse: float = 1.0, mae: float = 0.5, **interval: float) -> dict[str, Any]:
    return {"pcc": pcc, "mse": mse, "mae": mae, **interval}


def results(**given: Any) -> RunRecord:
    """A run of which only the results are known."""
    usual = {"best_epoch": 3, "epochs": 10, "counts": {"train": 3000, "validation": 50, "test": 60}, "validation": {}}
    return RunRecord.of(results=usual | {"test": {}} | given)


def monitored(**curves: list[float | None]) -> RunRecord:
    """A run of which only the monitor's records are known, an epoch for each value."""
    rows = [dict(zip(curves, values, strict=True)) for values in zip(*curves.values(), strict=True)]
    return RunRecord.of(monitor=[{"epoch": k, "pcc": 0.5, "mse": 1.0} | row for k, row in enumerate(rows)])


def model(name: str, pcc: float | None, mse: float, seconds: float = 30.0) -> dict[str, Any]:
    ends = (None, None) if pcc is None else (pcc - 0.125, pcc + 0.125)
    runs = [{"seed": 0, "fold": fold, "seconds": seconds, "pcc": ends[fold]} for fold in (0, 1)]
    row = {"model": name, "label": name.upper(), "pcc": pcc, "mse": mse, "mae": 0.5}
    return row | {"seconds": seconds, "runs": runs}


def pair(name: str, against: str, difference: float, reach: float) -> dict[str, Any]:
    low, high = difference - reach, difference + reach
    word = "better" if low > 0 else "worse" if high < 0 else "cannot tell"
    found = {"model": name, "against": against, "difference": difference, "low": low, "high": high}
    return found | {"verdict": word}


def compared(**given: Any) -> ComparisonRecord:
    """Three models; "a" is the reference."""
    rows = [model("a", 0.5, 2.0), model("b", 0.75, 3.0), model("c", None, 4.0)]
    pairs = [pair("b", "a", 0.25, 0.125), pair("c", "a", -0.5, 0.25), pair("c", "b", -0.03125, 0.0625)]
    usual = {"reference": "a", "rows": rows, "pairs": pairs, "sentence": "B is better.", "notes": ["of all three"]}
    return ComparisonRecord.of(usual | {"setup": {}, "rerun": "excora compare x"} | given)
