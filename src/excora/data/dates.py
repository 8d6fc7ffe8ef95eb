"""Dates as text: the forms that are known, which of them a column has, and what its cells then are."""

from __future__ import annotations

import functools
import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

#: ISO 8601, a day with or without a time and an offset from UTC.
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
ISO = "ISO8601"

DAY = 86_400e6  # in microseconds

_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d",
         "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y", "%d %B %Y", "%B %d, %Y")  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: The forms besides ISO's that a column of text may have throughout, as strptime writes them.
FORMS = tuple(map("".join, itertools.product(_DAYS, _TIMES)))
_PARTS = {"%Y": r"\d{4}", "%b": "[A-Za-z]{3}", "%B": "[A-Za-z]{3,}", "%p": "[AaPp][Mm]"}


def date_form(filled: pd.Series[Any]) -> str | None:
    """The form of text without gaps, :data:`ISO` or one of :data:`FORMS`; None if it has none, or could have two.

    Where no day is above 12, 03/04/2024 is March in one country and April in another: nobody knows, so it is no date.

    >>> import pandas as pd
    >>> date_form(pd.Series(["31.01.2024", "01.02.2024"])), date_form(pd.Series(["2024-01-31", "2024-02-01 17:05"]))
    ('%d.%m.%Y', 'ISO8601')
    >>> date_form(pd.Series(["01/31/2024", "02/01/2024"])), date_form(pd.Series(["02/01/2024"]))
    ('%m/%d/%Y', None)
    """
    fits = [form for form in (ISO, *FORMS) if _pattern(form).fullmatch(str(filled.iloc[0]).strip())]
    found = [form for form in fits if moments(filled, form) is not None]
    same = {tuple(moments(filled, form)) for form in found}  # type: ignore[arg-type]
    return found[0] if len(same) == 1 else None


def form_of(column: pd.Series[Any]) -> str:
    """The form of a column that holds dates; of a date type, ISO's."""
    import pandas as pd

    filled = column.dropna()
    return (date_form(filled) if pd.api.types.infer_dtype(filled) == "string" else None) or ISO


@functools.cache
def _pattern(form: str) -> re.Pattern[str]:
    if form == ISO:
        return re.compile(ISO_DATE)
    pieces = re.split("(%[A-Za-z])", form)
    two = r"\d{1,2}"
    return re.compile("".join(_PARTS.get(x, two) if x.startswith("%") else re.escape(x) for x in pieces))


def moments(column: pd.Series[Any], form: str = ISO) -> NDArray[np.float64] | None:
    """A column of dates as days since 1970-01-01 UTC, NaN where empty; None if a cell is no date.

    Text has the ``form`` in every cell. A time without an offset counts as UTC.

    >>> import pandas as pd
    >>> moments(pd.Series(["1970-01-02", None, "1970-01-01T07:00+01:00"])).tolist()
    [1.0, nan, 0.25]
    """
    import pandas as pd

    filled = column.dropna()
    if text := pd.api.types.infer_dtype(filled) == "string":
        filled = filled.str.strip()
        if not filled.str.fullmatch(_pattern(form).pattern).all():
            return None
    found: NDArray[np.float64] | None
    try:
        days = pd.to_datetime(filled, utc=True, format=form if text else ISO)
        found = days.dt.as_unit("us").astype("int64").to_numpy() / DAY
    except pd.errors.OutOfBoundsDatetime:  # pandas ends in 2262, and 9999-12-31 is a favourite for "never"
        found = _slow_moments(filled, form if text else ISO)
    except (ValueError, TypeError, OverflowError, AttributeError):
        return None
    if found is None:
        return None
    spread = np.full(len(column), np.nan)
    spread[column.notna().to_numpy()] = found
    return spread


def _slow_moments(filled: pd.Series[Any], form: str) -> NDArray[np.float64] | None:
    """The same by Python's own calendar, which knows the years 1 to 9999."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    found = np.empty(len(filled))
    for place, cell in enumerate(map(str, filled)):
        try:
            moment = datetime.fromisoformat(cell) if form == ISO else datetime.strptime(cell, form)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        found[place] = (moment - epoch) / timedelta(days=1)
    return found
