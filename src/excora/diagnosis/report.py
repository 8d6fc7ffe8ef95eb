"""Diagnose: what predictions alone can say about a correlation, and what they cannot.

From the final predictions: pooled and per-group PCC with intervals, the parts of the MSE, the affine fix. With epochs
also whether PCC still rises. Why it stopped takes a run recorded by :class:`excora.PlateauMonitor`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from excora.console import table
from excora.diagnosis.case import Case
from excora.diagnosis.evidence import Fit
from excora.diagnosis.texts import out_of_reach
from excora.diagnosis.trend import Plateau, detect_plateau
from excora.diagnosis.verdicts import Verdict, check_ceiling, judge, make_verdict
from excora.errors import InputError
from excora.stats.correlation import Array, correlations, unit_moments, within_groups
from excora.stats.intervals import Interval, group_interval, pooled_interval
from excora.storage import plain

__all__ = ["Diagnosis", "detect_plateau", "diagnose"]

FEWEST = 3  # rows: two always correlate perfectly


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """A verdict and the figures behind it; ``print`` shows them, :meth:`to_dict` gives plain numbers.

    ``source``: "final predictions", "predictions per epoch" or "full run". ``figures``: sections of named
    numbers, intervals or words. ``notes``: remarks that are no verdict. ``parts``: of a file with several parts or
    targets, the diagnosis of each by its label.
    """

    verdict: Verdict
    source: str
    figures: Mapping[str, Mapping[str, Any]]
    plateau: Plateau | None = None
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Diagnosis] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and dicts, ready for JSON; NaN becomes None."""
        plateau = None if self.plateau is None else self.plateau.to_dict()
        verdict, figures, notes = self.verdict.to_dict(), plain(self.figures), list(self.notes)
        found = {"verdict": verdict, "source": self.source, "figures": figures, "plateau": plateau, "notes": notes}
        return found | {"parts": {label: part.to_dict() for label, part in self.parts.items()}}

    def __str__(self) -> str:
        lines = [str(self.verdict), f"from {self.source}"]
        for title, section in self.figures.items():
            lines += [title, *(f"  {name}: {_shown(value)}" for name, value in section.items())]
        lines += ([] if self.plateau is None else [self.plateau.sentence]) + list(self.notes)
        return "\n".join([*lines, *(f"\n{label}: {part}" for label, part in self.parts.items())])

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
        parts = (Group(Text(f"\n{label}", style="bold"), part) for label, part in self.parts.items())
        return Group(head, Text(f"from {self.source}"), *tables, *map(Text, tail), *parts)


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
    prediction: ArrayLike | torch.Tensor | Recorded,
    target: ArrayLike | torch.Tensor | None = None,
    groups: ArrayLike | torch.Tensor | None = None,
    epochs: ArrayLike | torch.Tensor | None = None,
    *,
    validation: Recorded | None = None,
    peers: Iterable[Mapping[str, Any]] = (),
    noise_ceiling: float | None = None,
    seed: int = 0,
) -> Diagnosis:
    """What predictions, or a recorded run, say about a correlation.

    ``diagnose(monitor)``: of a run that a :class:`excora.PlateauMonitor` has recorded, with ``validation=``, a second
    monitor that was updated with the validation part, and ``peers=``, what simple models reach there. All verdicts are
    possible; which of them are not, and what they lack, stands in ``notes``.

    ``diagnose(prediction, target)``: of predictions, a row a sample, in arrays, tensors or pandas columns of shape
    (n,). ``groups`` (n,) labels slides, subjects, ...: PCC is then also taken within each. ``epochs`` (n,) numbers the
    epoch each row was predicted in: the figures are those of the last epoch, and the plateau detector sees all of them.
    ``peers``: scores of simple models on the same rows, ``{"name": ..., "validation": {"pcc": ...}}`` each.
    ``noise_ceiling``: the highest PCC that label noise allows, if you know it. Possible verdicts: scale or offset only,
    healthy, data-limited, cannot tell; with peers behind a simple model and no signal found; with epochs still
    improving. Predictions must be of samples that the model has not been fitted to.

    >>> y = np.arange(40.0)
    >>> found = diagnose(0.5 * y + 3 + np.sin(y), y)
    >>> found.verdict.name, found.figures["affine fix"]["gain"] > 0.9
    ('scale or offset only', True)

    Constant predictions or targets leave PCC undefined, and the verdict is cannot tell. Fewer than 3 rows, NaN and
    shapes that do not match are errors.
    """
    if isinstance(prediction, Recorded):
        if target is not None or groups is not None or epochs is not None:
            raise InputError("a monitor has its own targets and epochs: give validation= and peers= with it")
        return diagnose_run(*prediction.parts(validation), peers=peers, noise_ceiling=noise_ceiling)
    if target is None or validation is not None:
        raise InputError("predictions need their target, and validation= goes with a monitor")
    x, y = _numbers("prediction", prediction), _numbers("target", target)
    if x.shape != y.shape or len(x) < FEWEST:
        raise InputError(
            f"prediction and target must have equally many rows, at least {FEWEST}, got {len(x)} and {len(y)}"
        )
    group = None if groups is None else _codes(groups, "groups", len(x))
    plateau, last, count = None, np.ones(len(x), dtype=bool), 0
    if epochs is not None:
        order = _codes(_numbers("epochs", epochs), "epochs", len(x))
        plateau, last, count = _plateau(x, y, order, seed), order == order.max(), int(order.max()) + 1
        if last.sum() < FEWEST:
            raise InputError(f"the last epoch must have at least {FEWEST} rows, got {last.sum()}")
    x, y = x[last], y[last]
    group = None if group is None else np.unique(group[last], return_inverse=True)[1].astype(np.intp)
    figures = _figures(x, y, group, seed)
    source = "final predictions" if plateau is None else "predictions per epoch"
    check_ceiling(noise_ceiling)
    case = Case.of_predictions(_fit(x, y, figures["pooled"]["PCC"]), plateau, count, peers, noise_ceiling)
    return Diagnosis(judge(case), source, figures, plateau, (*_notes(figures), *out_of_reach(*case.missing)))


@runtime_checkable
class Recorded(Protocol):
    """A recorded run: :class:`excora.PlateauMonitor`."""

    records: list[Any]

    def parts(self, validation: Any = None) -> tuple[list[Any], list[Any]]:
        """The records of the training part and of the validation part."""


def diagnose_run(
    records: Sequence[Mapping[str, Any]], validation: Sequence[Mapping[str, Any]], **known: Any
) -> Diagnosis:
    """The diagnosis of records of the training and the validation part; ``known`` as for ``verdict``."""
    check_ceiling(known.get("noise_ceiling"))
    case = Case.of(records, validation, **known)
    held, place, plateau = known.get("held"), case.kept, case.plateau
    rows = {"validation": held or (validation[place] if place < len(validation) else {})}
    rows["training part"] = records[place] if place < len(records) else {}
    figures = {
        f"kept epoch, {part}": {name: value for name, value in row.items() if value is not None}
        for part, row in rows.items()
        if row
    }
    shown = None if plateau is None or plateau.pcc is None else plateau
    return Diagnosis(judge(case), "full run", figures, shown, out_of_reach(*case.missing))


def together(found: Mapping[str, Diagnosis], rows: int) -> Diagnosis:
    """The diagnoses of the parts and targets of one file as one; the first part, which is test, has the verdict."""
    first, *rest = found.items()
    if not rest:
        label, one = first
        note = () if not label else (f"{label}: {one.figures['pooled']['rows']} of {rows} rows.",)
        return dataclasses.replace(one, notes=(*note, *one.notes))
    main = first[0].split(", ")[0] if first[0].startswith("part ") else ""
    chief = {label: one.verdict for label, one in found.items() if label.startswith(main)}
    names = {one.name for one in chief.values()}
    where = f"Of {main}" if main else "Of every target"
    if len(chief) == 1:
        verdict = dataclasses.replace(first[1].verdict, sentence=f"{where}: {first[1].verdict.sentence}")
    elif len(names) == 1:
        verdict = make_verdict(names.pop(), {}, f"{where}, {len(chief)} targets alike; their numbers stand below.")
    else:
        each = ", ".join(f"{label} {one.name}" for label, one in chief.items())
        verdict = make_verdict("cannot tell", {}, f"There is no one verdict: {each}.")
    figures = {
        label: {"rows": one.figures["pooled"]["rows"], "PCC": one.figures["pooled"]["PCC"], "verdict": one.verdict.name}
        for label, one in found.items()
    }
    told = f"{rows} rows, judged apart: {'; '.join(found)}."
    return Diagnosis(verdict, first[1].source, figures, None, (told,), dict(found))


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
    figures["MSE"] = _parts(x, y, pcc.value)
    if not np.isnan(pcc.value):
        slope = pcc.value * float(y.std() / x.std())
        intercept = float(y.mean() - slope * x.mean())
        fit = _fit(x, y, pcc)
        known = {} if fit is None else {"MSE after": fit.affine, "gain": fit.affine_gain}
        figures["affine fix"] = {"slope": slope, "intercept": intercept, **known}
    return figures


def _parts(x: Array, y: Array, rho: float) -> dict[str, Any]:
    """MSE = (mean x - mean y)^2 + (sigma_x - rho sigma_y)^2 + sigma_y^2 (1 - rho^2): level, spread, order.

    The first two are what an affine map removes. The right spread of a prediction is rho sigma_y, not sigma_y.
    """
    rho, sd_x, sd_y = 0.0 if np.isnan(rho) else rho, float(x.std()), float(y.std())
    parts = {"level": float(x.mean() - y.mean()) ** 2, "spread": (sd_x - rho * sd_y) ** 2}
    parts["order"] = sd_y**2 * (1.0 - rho**2)
    return {"total": float(((x - y) ** 2).mean()), **parts, "sigma ratio": sd_x / sd_y if sd_y else None}


def _fit(x: Array, y: Array, pcc: Interval) -> Fit | None:
    """None where PCC is undefined."""
    affine = float(y.var()) * (1.0 - pcc.value**2)
    record = {"pcc": pcc.value, "bags": len(x), "mse": float(((x - y) ** 2).mean()), "mse_affine": affine}
    return Fit.of(record, "predictions", interval=pcc)


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
