"""Tables on disk, and their columns as numbers, moments and text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

TEXT_FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.xz", ".tsv.xz")
FORMATS = (*TEXT_FORMATS, ".parquet")

#: What the name of a column starts with that has none in the file, such as row numbers that pandas saved.
UNNAMED = "(unnamed)"

#: Squares of larger numbers overflow, so no mean or correlation of them exists.
LARGEST = 1e150

#: The text that counts as a date: ISO 8601, a day with or without a time and an offset from UTC.
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"

DAY = 86_400e6  # in microseconds

Kind = Literal["number", "category", "date", "empty", "other"]


def is_table(path: Path) -> bool:
    """Whether the name ends like that of a table."""
    return path.name.lower().endswith(FORMATS)


def first_row(path: Path) -> int:
    """How messages count: the file's number of the first row of data, 2 below a header line and 1 in Parquet."""
    return 1 if path.name.lower().endswith(".parquet") else 2


def read_frame(path: str | Path, *, text: Iterable[str] = ()) -> pd.DataFrame:
    """A table from .csv or .tsv (also .gz, .xz; UTF-8, one header row) or .parquet, with a plain row index.

    The columns named in ``text`` keep the characters of a text file: an id of 007 does not become 7, nor NA a gap.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("id,x\\n007,1.5\\n")
    >>> read_frame(path, text=["id"]).to_dict("list")
    {'id': ['007'], 'x': [1.5]}

    Anything wrong with the file is an InputError that names it: absent, of another kind, empty, cut off, no UTF-8,
    rows longer than the header, columns of one name. A header without rows gives a frame of length 0.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if not is_table(path):
        raise InputError(f"{path}: expected a name ending in {', '.join(FORMATS)}, got {path.name!r}")
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be left out
            frame = _parquet(path) if first_row(path) == 1 else _delimited(path, tuple(text))
    except pd.errors.EmptyDataError:
        raise InputError(f"{path}: the file is empty; a header row and data are expected") from None
    except InputError:
        raise
    except ImportError as error:
        raise MissingExtraError(str(error.name or "pyarrow"), "app") from error
    except Exception as error:  # the parsers raise a dozen kinds, and a user's file may provoke any of them
        kind = "Parquet" if first_row(path) == 1 else "delimited text in UTF-8"
        raise InputError(f"{path}: this is not readable as {kind}: {_one_line(error)}") from None
    return frame.reset_index(drop=True)


def _delimited(path: Path, text: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    separator = "\t" if ".tsv" in path.name.lower() else ","
    header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False, index_col=False)
    names = [str(name).strip() or f"{UNNAMED} {place}" for place, name in enumerate(header.iloc[0], 1)]
    _refuse_repeated(path, names)
    if len(names) == 1 and ";" in names[0]:
        raise InputError(f"{path}: the cells seem to be separated by semicolons; use commas, or tabs in a .tsv")
    keep = {place: str for place, name in enumerate(names) if name in text}
    frame = pd.read_csv(
        path,
        sep=separator,
        header=0,
        index_col=False,
        low_memory=False,
        converters=keep,
        float_precision="round_trip",  # the quick way may miss the last digit
    )
    frame.columns = pd.Index(names)
    return frame


def _parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    names = [str(name) for name in pq.read_schema(path).names]
    _refuse_repeated(path, names)
    frame: pd.DataFrame = pq.ParquetFile(path).read().to_pandas(ignore_metadata=True)
    frame.columns = frame.columns.map(str)
    return frame.rename(columns={name: f"{UNNAMED} {name}" for name in names if name.startswith("__index_level_")})


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{path}: there are {names.count(repeated[0])} columns called {repeated[0]!r}; every column needs "
            f"a name of its own"
        )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


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
