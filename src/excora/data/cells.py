"""What the cells of a column hold: numbers, moments or text, and which of these a column is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from excora.data.dates import date_form

if TYPE_CHECKING:
    import pandas as pd

#: Squares of larger numbers overflow, so no mean or correlation of them exists.
LARGEST = 1e150

#: Words that people write where a number is missing, in lower case.
PLACEHOLDERS = frozenset(
    "|?|-|--|---|.|..|*|na|n.a.|n/a|#n/a|nan|null|none|nil|missing|unknown|not available".split("|")  # noqa: SIM905
)

#: A number as people write it: thousands apart, a decimal comma, a percent or currency sign.
_WRITTEN = re.compile(r"[-+]?\s?[$€£¥]?\s?\d+(?:[,.' \u00a0\u202f]\d{3})*(?:[.,]\d+)?\s?[%$€£¥]?")

Kind = Literal["number", "category", "date", "empty", "other"]


def kind_of(column: pd.Series[Any]) -> Kind:
    """What a column holds: numbers, categories (text, booleans), dates (a type, or text), nothing, or neither.

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
        return "category" if date_form(filled) is None else "date"
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


def gaps(column: pd.Series[Any]) -> NDArray[np.bool_] | None:
    """Where text that is otherwise numbers has a word for "missing"; None where that is not what it is.

    >>> import pandas as pd
    >>> gaps(pd.Series(["1.5", "?", "2", None])).tolist(), gaps(pd.Series(["1", "two"])), gaps(pd.Series(["?", "-"]))
    ([False, True, False, False], None, None)
    """
    import pandas as pd

    if not (pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype)):
        return None
    values, there = numbers(column), column.notna().to_numpy()
    words = there & np.isnan(values)
    if not words.any() or np.isnan(values).all() or not are_gaps(column[words]):
        return None
    if any(isinstance(cell, bool) for cell in column):
        return None
    return words


def are_gaps(cells: pd.Series[Any]) -> bool:
    """Whether all of these cells are words for "missing"."""
    return all(isinstance(cell, str) and cell.strip().casefold() in PLACEHOLDERS for cell in cells.unique())


def disguised(column: pd.Series[Any]) -> str | None:
    """A cell of a column of text that nearly throughout (90 %) holds numbers in a writing that is not read as such.

    >>> import pandas as pd
    >>> disguised(pd.Series(["999", "1,234"])), disguised(pd.Series(["12 %", None])), disguised(pd.Series(["a1", "2"]))
    ('1,234', '12 %', None)
    """
    if kind_of(column) != "category":
        return None
    cells = [cell.strip() for cell in column.dropna().unique() if isinstance(cell, str)]
    written = [cell for cell in cells if _WRITTEN.fullmatch(cell)]
    odd = [cell for cell in written if not cell.replace(".", "", 1).lstrip("+-").isdigit()]
    return odd[0] if odd and len(written) >= 0.9 * len(cells) else None


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
