"""Columns of a table as numbers and codes, as the training part taught them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from excora.data.cells import are_gaps, kind_of, numbers, texts
from excora.data.dataset import Index
from excora.data.dates import FORMS, ISO, form_of, moments
from excora.data.scaling import Floats, mean_and_std, normal_scores, quantiles_of

if TYPE_CHECKING:
    import pandas as pd

#: Categories a column can have; rarer ones share code 0 with those that training has not seen.
MOST_CATEGORIES = 255

#: The category of an empty cell.
EMPTY = "(empty)"

#: Why a column is left out that says the same of every sample.
ONE_VALUE = "it has one value throughout the training part"


@dataclass(frozen=True)
class Number:
    """One numeric feature: its training mean, standard deviation and range; ``gaps``: training had missing values.

    With ``quantiles``, which rise, it is scaled by its rank among the training values, else by mean and deviation.
    """

    part: str  #: "" for a plain number, else what it says of a date
    mean: float
    std: float
    low: float
    high: float
    gaps: bool
    quantiles: tuple[float, ...] = ()  #: at equal steps from the lowest training value to the highest

    def scale(self, values: Floats) -> Floats:
        """(values - mean) / std; with quantiles :func:`excora.data.scaling.normal_scores`. NaN stays NaN."""
        if self.quantiles:
            return normal_scores(values, np.array(self.quantiles))
        with np.errstate(over="ignore"):
            return (values - self.mean) / self.std


@dataclass(frozen=True)
class Column:
    """A feature column that training has seen, and what it becomes."""

    name: str
    kind: Literal["number", "category", "date"]
    numbers: tuple[Number, ...] = ()
    categories: tuple[str, ...] = ()  #: code k is categories[k - 1]; 0 is anything else
    form: str = ISO  #: of dates that are text, see :mod:`excora.data.dates`
    #: How often training had each category; () in runs of earlier versions. It changes no prediction.
    counts: tuple[int, ...] = field(default=(), compare=False)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Column:
        """What ``dataclasses.asdict`` gave; anything else is a ValueError, TypeError or KeyError."""
        found = tuple(
            Number(
                str(n["part"]), float(n["mean"]), float(n["std"]), float(n["low"]), float(n["high"]), bool(n["gaps"]),
                tuple(map(float, n.get("quantiles", ()))),
            )
            for n in values["numbers"]
        )  # fmt: skip
        for row in (np.array(number.quantiles) for number in found):
            if len(row) == 1 or not np.isfinite(row).all() or (np.diff(row) < 0).any():
                raise ValueError(f"quantiles of column {values['name']!r} do not rise")
        kind = values["kind"]
        parts = {"number": {""}, "date": set(DATE_PARTS), "category": set()}[kind]
        if not {number.part for number in found} <= parts:
            raise ValueError(f"unknown parts of column {values['name']!r}")
        form = values.get("form", ISO)
        if form not in (ISO, *FORMS):
            raise ValueError(f"unknown form of the dates in column {values['name']!r}")
        categories, counts = tuple(map(str, values["categories"])), tuple(map(int, values.get("counts", ())))
        if counts and (len(counts) != len(categories) or min(counts) < 1):
            raise ValueError(f"the categories of column {values['name']!r} must have a count each, of 1 or more")
        return cls(str(values["name"]), kind, found, categories, form, counts)

    @property
    def labels(self) -> list[str]:
        """Names of the numeric features."""
        return [f"{self.name} {number.part}".strip() for number in self.numbers]

    def values(self, column: pd.Series[Any]) -> Floats:
        """The features of a column of numbers or dates, (n, features), NaN where missing; ValueError if it is not."""
        kind, parts = kind_of(column), [number.part for number in self.numbers]
        days = moments(column, self.form) if self.kind == "date" and kind == "category" else None
        if kind == "category" and self.kind == "number":
            kind = "number" if are_gaps(column[np.isnan(numbers(column)) & column.notna().to_numpy()]) else kind
        if kind not in (self.kind, "empty") and days is None:
            raise ValueError(f"{_PLURAL[self.kind]} in training and has {_PLURAL[kind]} now{_example(column)}")
        return _expand(column, self.kind, parts, self.form)

    def codes(self, column: pd.Series[Any]) -> NDArray[np.int64]:
        """The code of each cell, (n,); a column of another kind without any known category is a ValueError."""
        code = {category: k for k, category in enumerate(self.categories, 1)}
        found = np.array([code.get(cell or EMPTY, 0) for cell in texts(column)], np.int64)
        # Digits among the categories may come back as numbers, so the kind alone decides nothing.
        kind = kind_of(column)
        if kind in ("number", "date", "other") and not found.any():
            known = ", ".join(map(repr, self.categories[:3]))
            raise ValueError(f"categories like {known} in training and has {_PLURAL[kind]} now")
        return found


_PLURAL = {
    "number": "numbers",
    "category": "text or booleans",
    "date": "dates",
    "other": "cells that are neither numbers, text, booleans nor dates",
}


def _example(column: pd.Series[Any]) -> str:
    """The first cell that is no number."""
    bad = np.flatnonzero(np.isnan(numbers(column)) & column.notna().to_numpy())
    return f", for example {str(column.iloc[bad[0]])[:40]!r}" if len(bad) else ""


def learn(name: str, column: pd.Series[Any], index: Index, scaling: str = "standard") -> Column | str:
    """The column as the rows of ``index`` show it, or why it is left out; ``scaling``: "standard" or "quantile".

    >>> import pandas as pd
    >>> learn("x", pd.Series([1.0, 3.0, 9.0]), np.array([0, 1])).numbers[0].mean
    2.0
    >>> learn("x", pd.Series([1.0, 1.0, 9.0]), np.array([0, 1]))
    'it has one value throughout the training part'
    """
    kind = kind_of(column)
    seen = column.iloc[index]
    if kind == "other":
        return "it holds neither numbers, text, booleans nor dates"
    if kind == "empty" or bool(seen.isna().all()):
        return "it is empty throughout the training part"
    if kind == "category":
        return _learn_categories(name, seen)
    parts = [""] if kind == "number" else list(DATE_PARTS)
    form = form_of(column) if kind == "date" else ISO
    rows = _expand(seen, kind, parts, form).T
    learned = (_learn_number(part, row, scaling) for part, row in zip(parts, rows, strict=True))
    found = tuple(number for number in learned if number is not None)
    return Column(name, kind, numbers=found, form=form) if found else ONE_VALUE


def _learn_number(part: str, values: Floats, scaling: str) -> Number | None:
    gaps = np.isnan(values)
    known = values[~gaps]
    if not len(known):
        return None
    mean, std = mean_and_std(known)
    # One value, but not in every row: whether it is there may tell something.
    if not std and not (gaps.any() and part in ("", "days")):
        return None
    quantiles: tuple[float, ...] = ()
    if scaling == "quantile":
        quantiles = tuple(quantiles_of(known).tolist())
    return Number(part, mean, std or 1.0, float(known.min()), float(known.max()), bool(gaps.any()), quantiles)


def _learn_categories(name: str, seen: pd.Series[Any]) -> Column | str:
    counts = Counter(cell or EMPTY for cell in texts(seen))
    filled, distinct = len(seen) - counts.get(EMPTY, 0), len(counts.keys() - {EMPTY})
    if distinct > max(20, 0.9 * filled):
        return (
            f"almost every cell is a text of its own ({distinct} in {filled}), as in ids or free text "
            f"(a date is recognised if it is written like 2024-01-31, or like 31/01/2024 with a day above 12)"
        )
    if len(counts) == 1:
        return ONE_VALUE
    # The most frequent first; equal counts by name, so that the order of rows does not matter.
    common = sorted(counts, key=lambda category: (-counts[category], category))
    kept = tuple(common[:MOST_CATEGORIES])
    return Column(name, "category", categories=kept, counts=tuple(counts[category] for category in kept))


def _expand(column: pd.Series[Any], kind: str, parts: list[str], form: str) -> Floats:
    """The numeric features of a column, (n, features), NaN where missing."""
    if kind == "number":
        return numbers(column)[:, None]
    days = moments(column, form)
    if days is None:  # nothing but empty cells
        return np.full((len(column), len(parts)), np.nan)
    gaps = np.isnan(days)
    found = np.stack([DATE_PARTS[part](np.where(gaps, 0.0, days)) for part in parts], 1)
    found[gaps] = np.nan
    return found


def _time_of_day(days: Floats) -> Floats:
    # To a tenth of a millisecond: 10:00 must be the same number on every day, or a constant would seem to vary.
    return np.round(days - np.floor(days), 9)


def _weekday(days: Floats) -> Floats:
    return (np.floor(days) - 4) % 7 / 7  # 1970-01-05 was a Monday


def _day_of_year(days: Floats) -> Floats:
    day = np.floor(days).astype("datetime64[D]")
    return (day - day.astype("datetime64[Y]").astype("datetime64[D]")).astype(float) / 365.25


def _circle(wave: Callable[[Floats], Floats], phase: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    return lambda days: wave(2 * np.pi * phase(days))


#: What a date becomes: days since 1970-01-01 UTC, and its place in the day, the week and the year on a circle.
DATE_PARTS: dict[str, Callable[[Floats], Floats]] = {
    "days": lambda days: days,
    "time of day (sin)": _circle(np.sin, _time_of_day),
    "time of day (cos)": _circle(np.cos, _time_of_day),
    "weekday (sin)": _circle(np.sin, _weekday),
    "weekday (cos)": _circle(np.cos, _weekday),
    "day of year (sin)": _circle(np.sin, _day_of_year),
    "day of year (cos)": _circle(np.cos, _day_of_year),
}
