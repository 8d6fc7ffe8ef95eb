"""What a table says of its samples besides their features: targets, groups, times, weights, names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from excora.data.cells import LARGEST, gaps, kind_of, numbers, texts
from excora.data.dates import ISO_DATE, form_of, moments
from excora.data.roles import Roles

if TYPE_CHECKING:
    import pandas as pd

#: Problems of one kind that are listed one by one.
MOST_PROBLEMS = 20

Objects = NDArray[np.object_]
Floats = NDArray[np.float64]


@dataclass
class Sheet:
    """A table with its rows' numbers in the file; reads roles and notes what is wrong with them."""

    source: str  #: what messages start with
    frame: pd.DataFrame
    rows: NDArray[np.intp]  #: number of each row in messages
    noun: str = "row"
    problems: list[str] = field(default_factory=list)

    def complain(self, message: str) -> None:
        """Note a problem."""
        self.problems.append(f"{self.source}: {message}")

    def has(self, name: str, role: str) -> bool:
        """Whether the column is there; a missing one is a problem."""
        if name in self.frame.columns:
            return True
        plain = {str(column).casefold(): column for column in self.frame.columns}
        near = [plain[found] for found in difflib.get_close_matches(name.casefold(), list(plain), 1)]
        have = ", ".join(map(repr, self.frame.columns[:10])) + (", ..." if len(self.frame.columns) > 10 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"there are {have or 'none'}"
        purpose = "to drop" if role == "drop" else f"for the {role}"
        self.complain(f"there is no column {name!r} {purpose}; {hint}")
        return False

    def fill_gaps(self, names: Iterable[str]) -> list[str]:
        """Make numbers of columns that are numbers but for words like ``?``, and note how many cells are now empty."""
        notes = []
        for name in names:
            empty = None if name not in self.frame else gaps(self.frame[name])
            if empty is not None:
                words = ", ".join(map(repr, self.frame[name][empty].unique()[:3]))
                self.frame[name] = numbers(self.frame[name])
                cells = "1 cell" if empty.sum() == 1 else f"{int(empty.sum()):,} cells"
                notes.append(f"column {name!r} holds numbers: {words} in {cells} is read as missing")
        return notes

    def first(self, bad: NDArray[np.bool_]) -> str:
        """The first bad row, and how many there are."""
        places = np.flatnonzero(bad)
        more = f" ({len(places)} such {self.noun}s)" if len(places) > 1 else ""
        return f"in {self.noun} {self.rows[places[0]]}{more}"

    def numbers(self, name: str, role: str, *, gaps: bool = False) -> Floats | None:
        """Finite numbers, with ``gaps`` NaN where a cell is empty; else None and a problem."""
        if not self.has(name, role):
            return None
        column = self.frame[name]
        values = numbers(column)
        bad = ~(np.abs(values) <= LARGEST)
        if gaps:
            bad &= column.notna().to_numpy()
        if bad.any():
            or_empty = ", or empty where it is unknown" if gaps else ""
            self.complain(
                f"the {role} {name!r} must be a finite number{or_empty}, got {_cell(column, bad)} {self.first(bad)}: "
                f"correct it or leave the {self.noun} out"
            )
            return None
        return values

    def targets(self, names: tuple[str, ...]) -> Floats | None:
        """(n, targets), NaN where a label is unknown; each has two known ones at least, and they differ."""
        if not names:
            self.complain("name the column to predict with target=")
        if len(set(names)) < len(names):
            self.complain(f"a target is named twice: {', '.join(names)}")
        found = [self.numbers(name, "target", gaps=True) for name in names]
        for name, values in zip(names, found, strict=True):
            if values is not None:
                self._check_varies(name, values)
        good = [values for values in found if values is not None]
        return np.stack(good, 1) if good and len(good) == len(found) else None

    def _check_varies(self, name: str, values: Floats) -> None:
        known = values[~np.isnan(values)]
        if len(known) < 2:
            self.complain(
                f"the target {name!r} must be known in at least 2 {self.noun}s, got {len(known)} of {len(values)}: "
                f"give more labels or another target"
            )
        elif (known == known[0]).all():
            where = f"in every {self.noun}" if len(known) == len(values) else "wherever it is known"
            self.complain(f"the target {name!r} is {known[0]:g} {where}: there is nothing to predict")

    def names(self, name: str, role: str, *, unique: bool = False) -> Objects | None:
        """Text in every row, or None and a problem."""
        if not self.has(name, role):
            return None
        column = self.frame[name]
        if kind_of(column) == "other":
            self.complain(f"the {role} {name!r} must be text, numbers or dates, got cells like {_cell(column)}")
            return None
        found = texts(column)
        empty = np.array([cell is None for cell in found], bool)
        if empty.any():
            self.complain(f"the {role} {name!r} must be there in every {self.noun}, got nothing {self.first(empty)}")
            return None
        if unique and (twice := repeated(found)):
            one, places = twice
            where = " and ".join(str(self.rows[place]) for place in places[:2])
            self.complain(f"the {role} {name!r} must be different in every {self.noun}, got {one!r} in {where}")
            return None
        return found

    def times(self, name: str) -> Floats | None:
        """What orders the rows: numbers, or dates as days."""
        if not self.has(name, "time"):
            return None
        column = self.frame[name]
        if kind_of(column) == "number":
            return self.numbers(name, "time")
        found = moments(column, form_of(column)) if kind_of(column) == "date" else None
        if found is None:
            bad = ~column.map(str).str.fullmatch(ISO_DATE).to_numpy(bool) & np.isnan(numbers(column))
            what = f"got {_cell(column, bad)} {self.first(bad)}" if bad.any() else f"got cells like {_cell(column)}"
            self.complain(f"the time {name!r} must be numbers or dates like 2024-01-31 17:05, {what}")
        elif np.isnan(found).any():
            self.complain(
                f"the time {name!r} must be there in every {self.noun}, got nothing {self.first(np.isnan(found))}"
            )
            found = None
        return found

    def weights(self, name: str) -> Floats | None:
        """Weights >= 0, not all 0."""
        found = self.numbers(name, "weight")
        if found is None:
            return None
        if (found < 0).any():
            self.complain(f"the weight {name!r} must not be negative, got {found.min():g} {self.first(found < 0)}")
            return None
        if len(found) and not found.any():
            self.complain(f"the weight {name!r} is 0 in every {self.noun}: nothing would be learned from")
            return None
        return found

    def described(self, roles: Roles, *, labelled: bool) -> dict[str, Any]:
        """Target, group, time and weight as :class:`Dataset` takes them.

        To predict (``labelled`` False) nothing of it is needed: targets are taken if all known labels are numbers,
        groups if they are whole.
        """
        if labelled:
            return {
                "target": self.targets(roles.target),
                "group": self.names(roles.group, "group") if roles.group else None,
                "time": self.times(roles.time) if roles.time else None,
                "weight": self.weights(roles.weight) if roles.weight else None,
            }
        quiet = Sheet(self.source, self.frame, self.rows, self.noun)
        found = [quiet.numbers(name, "target", gaps=True) for name in roles.target]
        good = [values for values in found if values is not None]
        target = np.stack(good, 1) if good and len(good) == len(found) else None
        return {
            "target": None if target is None or np.isnan(target).all() else target,
            "group": quiet.names(roles.group, "group") if roles.group and roles.group in self.frame else None,
        }


def counted(number: int, noun: str) -> str:
    """ "1 cell is", "2 cells are"."""
    return f"{number:,} {noun} is" if number == 1 else f"{number:,} {noun}s are"


def repeated(values: Objects) -> tuple[str, list[int]] | None:
    """The first value that occurs again, with its places."""
    seen: dict[Any, int] = {}
    for place, value in enumerate(values):
        if value in seen:
            return value, [seen[value], place]
        seen[value] = place
    return None


def _cell(column: pd.Series[Any], bad: NDArray[np.bool_] | None = None) -> str:
    import pandas as pd

    cell = column.iloc[0 if bad is None else int(np.flatnonzero(bad)[0])]
    missing = pd.isna(cell)
    if isinstance(missing, bool | np.bool_) and missing:
        return "an empty cell"
    return repr(cell.item() if isinstance(cell, np.generic) else cell)[:60]


def note_all(problems: list[str], found: list[str], noun: str) -> None:
    """Note problems of one kind, the first of them if there are very many."""
    problems += found[:MOST_PROBLEMS]
    if len(found) > MOST_PROBLEMS:
        problems.append(f"... and {len(found) - MOST_PROBLEMS} more {noun}")
