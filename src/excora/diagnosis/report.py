"""Diagnose: what predictions alone can say about a correlation, and what they cannot.

From the final predictions: pooled and per-group PCC with intervals, the parts of the MSE, the affine fix. With epochs
also whether PCC still rises. Why it stopped takes a run recorded by :class:`excora.PlateauMonitor`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from excora.console import table
from excora.diagnosis.trend import Plateau, detect_plateau
from excora.diagnosis.verdicts import (
    Evidence,
    Thresholds,
    Verdict,
    make_verdict,
    misfit_evidence,
    moving,
    stalled_evidence,
)
from excora.errors import InputError
from excora.moments import mse_decomposition
from excora.stats.correlation import Array, correlations, unit_moments, within_groups
from excora.stats.intervals import Interval, group_interval, pooled_interval
from excora.storage import plain

__all__ = ["Diagnosis", "detect_plateau", "diagnose"]

_AS_FAR = "As far as predictions show (whether PCC itself could be higher takes a recorded run):"
FEWEST = 3  # rows: two always correlate perfectly


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """A verdict and the figures behind it; ``print`` shows them, :meth:`to_dict` gives plain numbers.

    ``source``: "final predictions", "predictions per epoch" or "full run". ``figures``: sections of named
    numbers, intervals or words. ``notes``: remarks that are no verdict.
    """

    verdict: Verdict
    source: str
    figures: Mapping[str, Mapping[str, Any]]
    plateau: Plateau | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and dicts, ready for JSON; NaN becomes None."""
        plateau = None if self.plateau is None else self.plateau.to_dict()
        verdict, figures, notes = self.verdict.to_dict(), plain(self.figures), list(self.notes)
        return {"verdict": verdict, "source": self.source, "figures": figures, "plateau": plateau, "notes": notes}

    def __str__(self) -> str:
        lines = [str(self.verdict), f"from {self.source}"]
        for title, section in self.figures.items():
            lines += [title, *(f"  {name}: {_shown(value)}" for name, value in section.items())]
        return "\n".join(lines + ([] if self.plateau is None else [self.plateau.sentence]) + list(self.notes))

    def __rich__(self) -> Any:
        """The same as a table for rich consoles."""
        from rich.console import Group
        from rich.text import Text

        head = Text.assemble((self.verdict.name, "bold"), ": ", self.verdict.sentence)
        figures: list[tuple[Any, ...]] = []
        for title, section in self.figures.items():
            figures.append((Text(title, style="bold"), "", ""))
            figures += [("", name, _shown(value)) for name, value in section.items()]
        rules = [
            (name, "unknown" if value is None else f"{value:.4g}", rule, "yes" if met else "no")
            for name, (value, rule, met) in self.verdict.evidence.items()
        ]
        tail = [] if self.plateau is None else [self.plateau.sentence]
        tail += [*self.notes, f"next: {self.verdict.advice}"]
        tables = table(figures), table(rules, ("evidence", "value", "rule", "met"))
        return Group(head, Text(f"from {self.source}"), *tables, *map(Text, tail))


def _shown(value: Any) -> str:
    if isinstance(value, Interval):
        return f"{value}, {value.method}"
    return "undefined" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _numbers(name: str, values: ArrayLike | torch.Tensor) -> Array:
    """One column of finite numbers."""
    raw = values.detach().cpu().double().numpy() if isinstance(values, torch.Tensor) else values
    try:
        column = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, got values that are not: {error}") from None
    column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if column.ndim != 1:
        raise InputError(f"{name} must have shape (n,) or (n, 1), got {column.shape}: diagnose one target at a time")
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad):
        raise InputError(
            f"{name} must be finite, got {column[bad[0]]} in row {bad[0]} ({len(bad)} such rows): drop them first"
        )
    return column


def _codes(groups: ArrayLike | torch.Tensor, name: str, rows: int) -> NDArray[np.intp]:
    raw = np.asarray(groups.detach().cpu().numpy() if isinstance(groups, torch.Tensor) else groups)
    if raw.shape != (rows,):
        raise InputError(f"{name} must have one entry a row, {rows} in all, got shape {raw.shape}")
    # Mixed labels (1, "b") do not sort; as text they do.
    return np.unique(raw.astype(str) if raw.dtype == object else raw, return_inverse=True)[1].astype(np.intp)


def diagnose(
    prediction: ArrayLike | torch.Tensor,
    target: ArrayLike | torch.Tensor,
    groups: ArrayLike | torch.Tensor | None = None,
    epochs: ArrayLike | torch.Tensor | None = None,
    *,
    noise_ceiling: float | None = None,
    seed: int = 0,
) -> Diagnosis:
    """What predictions say about a correlation: one row a sample, in arrays, tensors or pandas columns of shape (n,).

    ``groups`` (n,) labels slides, subjects, ...: PCC is then also taken within each. ``epochs`` (n,) numbers the epoch
    each row was predicted in: the figures are those of the last epoch, and the plateau detector sees all of them.
    ``noise_ceiling``: the highest PCC that label noise allows, if you know it.

    Possible verdicts. Final predictions: scale or offset only, healthy (PCC >= 0.95), noise-limited (with
    ``noise_ceiling``), cannot tell. With epochs also still improving. All others take a recorded run.

    >>> y = np.arange(40.0)
    >>> found = diagnose(0.5 * y + 3 + np.sin(y), y)
    >>> found.verdict.name, found.figures["affine fix"]["gain"] > 0.9
    ('scale or offset only', True)

    Constant predictions or targets leave PCC undefined, and the verdict is cannot tell. Fewer than 3 rows, NaN and
    shapes that do not match are errors.
    """
    x, y = _numbers("prediction", prediction), _numbers("target", target)
    if x.shape != y.shape or len(x) < FEWEST:
        raise InputError(
            f"prediction and target must have equally many rows, at least {FEWEST}, got {len(x)} and {len(y)}"
        )
    group = None if groups is None else _codes(groups, "groups", len(x))
    plateau, last = None, np.ones(len(x), dtype=bool)
    if epochs is not None:
        order = _codes(_numbers("epochs", epochs), "epochs", len(x))
        plateau, last = _plateau(x, y, order, seed), order == order.max()
        if last.sum() < FEWEST:
            raise InputError(f"the last epoch must have at least {FEWEST} rows, got {last.sum()}")
    x, y = x[last], y[last]
    group = None if group is None else np.unique(group[last], return_inverse=True)[1].astype(np.intp)
    figures = _figures(x, y, group, seed)
    source = "final predictions" if plateau is None else "predictions per epoch"
    verdict = _verdict(figures, plateau, noise_ceiling)
    return Diagnosis(verdict, source, figures, plateau, _notes(figures))


def _plateau(x: Array, y: Array, epoch: NDArray[np.intp], seed: int) -> Plateau:
    count = int(epoch.max()) + 1
    rho = correlations(unit_moments(x, y, epoch, count))
    mse = np.bincount(epoch, (x - y) ** 2, count) / np.bincount(epoch, minlength=count)
    return detect_plateau(rho, mse, seed=seed)


def _figures(x: Array, y: Array, group: NDArray[np.intp] | None, seed: int) -> dict[str, dict[str, Any]]:
    pcc = pooled_interval(x, y, group, seed=seed)
    figures: dict[str, dict[str, Any]] = {"pooled": {"rows": len(x), "PCC": pcc}}
    if group is not None:
        figures["per group"] = _per_group(x, y, group, seed)
    parts = {k: float(v) for k, v in mse_decomposition(torch.from_numpy(x), torch.from_numpy(y))._asdict().items()}
    figures["MSE"] = {"total": parts.pop("mse"), **parts, "sigma ratio": float(x.std() / y.std()) if y.std() else None}
    if not np.isnan(pcc.value):
        slope = pcc.value * float(y.std() / x.std())
        after = float(y.var()) * (1.0 - pcc.value**2)
        total = figures["MSE"]["total"]
        gain = 1.0 - after / total if total > 0 else 0.0
        intercept = float(y.mean() - slope * x.mean())
        figures["affine fix"] = {"slope": slope, "intercept": intercept, "MSE after": after, "gain": gain}
    return figures


def _per_group(x: Array, y: Array, group: NDArray[np.intp], seed: int) -> dict[str, Any]:
    """Correlation within each group that has 3 rows and more, summarised."""
    count = int(group.max()) + 1
    sizes = np.bincount(group, minlength=count).astype(np.float64)
    rho = within_groups(x, y, group, count)
    defined = ~np.isnan(rho) & (sizes >= FEWEST)
    rho, kept = rho[defined], sizes[defined]
    section: dict[str, Any] = {"groups": count, "undefined": int((~defined).sum())}
    section["mean PCC"] = group_interval(rho, kept, seed=seed)
    if len(rho):
        section |= {"median": float(np.median(rho)), "lowest": float(rho.min()), "highest": float(rho.max())}
    return section


def _verdict(figures: Mapping[str, Mapping[str, Any]], plateau: Plateau | None, noise_ceiling: float | None) -> Verdict:
    limits = Thresholds()
    if noise_ceiling is not None and not 0 < noise_ceiling <= 1:
        raise InputError(f"noise_ceiling is a correlation in (0, 1], got {noise_ceiling}")
    if plateau is not None and plateau.state in ("improving", "worsening"):
        return moving(plateau)
    evidence = {} if plateau is None or plateau.pcc is None else stalled_evidence(plateau)
    pcc: Interval = figures["pooled"]["PCC"]
    if "affine fix" not in figures:
        return make_verdict("cannot tell", evidence, "PCC is undefined: prediction or target is constant.")
    mse = figures["MSE"]
    misfit = misfit_evidence(mse["total"], mse["offset"], mse["scale"], limits.misfit)
    evidence["offset_and_scale_share"] = misfit
    if misfit.met:
        return make_verdict("scale or offset only", evidence, _AS_FAR)
    if noise_ceiling is not None:
        reached = pcc.value >= noise_ceiling - 0.02
        evidence["pcc"] = Evidence(pcc.value, f">= noise ceiling {noise_ceiling} - 0.02", reached)
        if reached:
            return make_verdict("noise-limited", evidence, "PCC has reached the noise ceiling given.")
    good = pcc.value >= limits.good
    evidence["pcc"] = Evidence(pcc.value, f">= {limits.good}", good)
    return make_verdict("healthy" if good else "cannot tell", evidence)


def _notes(figures: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    if "per group" not in figures:
        return ()
    pooled, within = figures["pooled"]["PCC"], figures["per group"]["mean PCC"]
    if within.high < pooled.value and pooled.value - within.value > 0.1:
        return (
            f"PCC is {pooled.value:.2f} pooled but {within.value:.2f} within groups: much of it only tells groups "
            "apart. Report both.",
        )
    return ()
