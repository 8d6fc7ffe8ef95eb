"""What the cells of a column hold: numbers, moments or text, and which of these a column is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

#: Squares of larger numbers overflow, so no mean or correlation of them exists.
LARGEST = 1e150

#: The text that counts as a date: ISO 8601, a day with or without a time and an offset from UTC.
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"

DAY = 86_400e6  # in microseconds

Kind = Literal["number", "category", "date", "empty", "other"]


def kind_of(column: pd.Series[Any]) -> Kind:
    """What a column holds: numbers, categories (text, booleans), dates (a date type, or ISO text), nothing, or neither.

    >>> import pandas as pd
    >>> kind_of(pd.Series(["2024-01-31", None])), kind_of(pd.Series([True, None])), kind_of(pd.Series([1, 2]))
    ('date', 'category', 'number')

    Whole numbers with few values stay numbers: their order may matter, and text says so if it does not.
    """
    import pandas as pd

    kind: Kind = "other"
    filled = column.dropna()
    if filled.empty:
        kind = "empty"
    elif pd.api.types.is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        kind = "category"
    elif pd.api.types.is_numeric_dtype(column.dtype):
        kind = "other" if pd.api.types.is_complex_dtype(column.dtype) else "number"
    elif pd.api.types.is_datetime64_any_dtype(column.dtype):
        kind = "date"
    elif pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype):
        kind = _kind_of_objects(filled)
    return kind


def _kind_of_objects(filled: pd.Series[Any]) -> Kind:
    import pandas as pd

    found = pd.api.types.infer_dtype(filled, skipna=True)
    if found in ("integer", "floating", "mixed-integer-float", "decimal"):
        return "number"
    if found in ("date", "datetime", "datetime64"):
        return "date"
    if found == "string":
        return "date" if filled.str.fullmatch(ISO_DATE).all() and moments(filled) is not None else "category"
    if found in ("boolean", "mixed-integer", "mixed") and filled.map(np.isscalar).all():
        return "category"
    return "other"


def numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """The column as float64, NaN where a cell is empty or no number."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    dtype = column.dtype  # to_numeric would count the nanoseconds of a date
    known = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)
    if not (known or pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype)):
        return np.full(len(column), np.nan)
    try:
        found = pd.to_numeric(column, errors="coerce")
    except (TypeError, ValueError, OverflowError):  # cells that are lists, or whole numbers beyond any float
        return np.full(len(column), np.nan)
    if pd.api.types.is_complex_dtype(found.dtype):
        return np.full(len(column), np.nan)
    return found.to_numpy(dtype=np.float64, na_value=np.nan)


def moments(column: pd.Series[Any]) -> NDArray[np.float64] | None:
    """A column of dates as days since 1970-01-01 UTC, NaN where empty; None if a cell is no date.

    A time without an offset counts as UTC.

    >>> import pandas as pd
    >>> moments(pd.Series(["1970-01-02", None, "1970-01-01T07:00+01:00"])).tolist()
    [1.0, nan, 0.25]
    """
    import pandas as pd

    filled = column.dropna()
    if pd.api.types.infer_dtype(filled) == "string" and not filled.str.fullmatch(ISO_DATE).all():
        return None
    found: NDArray[np.float64] | None
    try:
        found = pd.to_datetime(filled, utc=True, format="ISO8601").dt.as_unit("us").astype("int64").to_numpy() / DAY
    except pd.errors.OutOfBoundsDatetime:  # pandas ends in 2262, and 9999-12-31 is a favourite for "never"
        found = _slow_moments(filled)
    except (ValueError, TypeError, OverflowError, AttributeError):
        return None
    if found is None:
        return None
    days = np.full(len(column), np.nan)
    days[column.notna().to_numpy()] = found
    return days


def _slow_moments(filled: pd.Series[Any]) -> NDArray[np.float64] | None:
    """The same by Python's own calendar, which knows the years 1 to 9999."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    found = np.empty(len(filled))
    for place, cell in enumerate(filled):
        try:
            moment = datetime.fromisoformat(str(cell))
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        found[place] = (moment - epoch) / timedelta(days=1)
    return found


def texts(column: pd.Series[Any]) -> NDArray[np.object_]:
    """The column as text, None where a cell is empty; a whole number reads the same with and without its point.

    >>> import pandas as pd
    >>> texts(pd.Series([1.0, None, 2.5])).tolist()
    ['1', None, '2.5']
    """
    cells = column.astype(object)
    return np.array([None if empty else _text(cell) for cell, empty in zip(cells, column.isna(), strict=True)], object)


def _text(cell: Any) -> str | None:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell) or None
