"""Tables on disk as pandas frames: delimited text and Parquet."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from excora.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

TEXT_FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.xz", ".tsv.xz")
FORMATS = (*TEXT_FORMATS, ".parquet")

#: What the name of a column starts with that has none in the file, such as row numbers that pandas saved.
UNNAMED = "(unnamed)"


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
