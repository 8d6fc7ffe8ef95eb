"""Tables on disk as pandas frames: delimited text, Parquet, Feather and Excel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from excora.data.delimited import GUESSED, UNNAMED, Writing, read_delimited, refuse_repeated
from excora.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

TEXT_FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.xz", ".tsv.xz")

#: The number of the first row of data, in messages and as an id, whatever the format: a header is row 1, as in a text
#: file or a spreadsheet. So a row has one name in a .csv and in the .parquet that was made of it.
FIRST_ROW = 2


def is_table(path: Path) -> bool:
    """Whether the name ends like that of a table."""
    return path.name.lower().endswith(FORMATS)


class Found(NamedTuple):
    """A table, and what the user should know of how it was read."""

    frame: pd.DataFrame
    notes: tuple[str, ...]


def read_frame(path: str | Path, *, text: Iterable[str] = ()) -> pd.DataFrame:
    """The frame of :func:`open_frame`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("id,x\\n007,1.5\\n")
    >>> read_frame(path, text=["id"]).to_dict("list")
    {'id': ['007'], 'x': [1.5]}
    """
    return open_frame(path, text=text).frame


def open_frame(path: str | Path, *, text: Iterable[str] = (), writing: Writing = GUESSED) -> Found:
    """A table from .csv or .tsv (also .gz, .xz), .parquet, .feather or .xlsx, with one header row and a plain index.

    The columns named in ``text`` keep the characters of a text file: an id of 007 does not become 7, nor NA a gap.
    What ``writing`` does not say of a text file is guessed, and noted where the guess is not the usual.

    Anything wrong with the file is an InputError that names it: absent, of another kind, empty, cut off, of another
    encoding, rows longer than the header, columns of one name. A header without rows gives a frame of length 0.
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
    words, read = _READERS.get(path.suffix.lower(), ("delimited text", None))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be left out
            frame, notes = read_delimited(path, tuple(text), writing) if read is None else read(path)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path}: the file is empty; a header row and data are expected") from None
    except pd.errors.ParserWarning:
        raise InputError(
            f"{path}: rows have more cells than the first line, which must be the header: is there a title or a "
            "comment above it?"
        ) from None
    except InputError:
        raise
    except ImportError as error:
        raise MissingExtraError(str(error.name or "pyarrow"), "app") from error
    except Exception as error:  # the parsers raise a dozen kinds, and a user's file may provoke any of them
        raise InputError(f"{path}: this is not readable as {words}: {_one_line(error)}") from None
    return Found(frame.reset_index(drop=True), tuple(f"{path.name}: {note}" for note in notes))


def _parquet(path: Path) -> tuple[pd.DataFrame, list[str]]:
    import pyarrow.parquet as pq

    return _arrow(path, pq.read_schema(path).names, lambda: pq.ParquetFile(path).read())


def _feather(path: Path) -> tuple[pd.DataFrame, list[str]]:
    import pyarrow.feather as pf

    table = pf.read_table(path)
    return _arrow(path, table.schema.names, lambda: table)


def _arrow(path: Path, names: list[str], read: Callable[[], object]) -> tuple[pd.DataFrame, list[str]]:
    refuse_repeated(path, list(map(str, names)))
    frame: pd.DataFrame = read().to_pandas(ignore_metadata=True)  # type: ignore[attr-defined]
    frame.columns = frame.columns.map(str)
    saved = {name: f"{UNNAMED} {name}" for name in map(str, names) if name.startswith("__index_level_")}
    return frame.rename(columns=saved), []


def _excel(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The first sheet; formulas as the values that were saved with them."""
    import pandas as pd

    with pd.ExcelFile(path, engine="openpyxl") as book:
        sheets = [str(name) for name in book.sheet_names]
        cells = book.parse(sheets[0], header=None, dtype=object)
    if not len(cells):
        raise pd.errors.EmptyDataError
    header = cells.iloc[0]
    names = ["" if pd.isna(name) else str(name).strip() for name in header]
    names = [name or f"{UNNAMED} {place}" for place, name in enumerate(names, 1)]
    refuse_repeated(path, names)
    frame = cells.iloc[1:].infer_objects()
    frame.columns = pd.Index(names)
    return frame, [f"of {len(sheets)} sheets the first is read, {sheets[0]!r}"] if len(sheets) > 1 else []


_READERS: dict[str, tuple[str, Callable[[Path], tuple[pd.DataFrame, list[str]]]]] = {
    ".parquet": ("Parquet", _parquet),
    ".feather": ("Feather", _feather),
    ".xlsx": ("an Excel workbook", _excel),
}
FORMATS = (*TEXT_FORMATS, *_READERS)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
