"""Delimited text: what separates the cells, how numbers are written, which encoding; guessed if nobody says it."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from excora.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: What the name of a column starts with that has none in the file, such as row numbers that pandas saved.
UNNAMED = "(unnamed)"

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
#: Bytes of text from which a file that was compressed more than 200 times is taken for one that is to fill the memory.
BOMB = 1 << 30
_HEAD = 1 << 16  # bytes that a guess looks at
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
#: A number with a decimal comma, or a whole one.
_COMMA = r"\s*[+-]?(?:\d+|\d*,\d+)(?:[eE][+-]?\d+)?\s*"


class Writing(NamedTuple):
    """How a text file is written; what is None is guessed."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None


GUESSED = Writing()


def read_delimited(path: Path, text: tuple[str, ...], writing: Writing) -> tuple[pd.DataFrame, list[str]]:
    """The file, and what was guessed otherwise than its name says; pandas' errors come as they are.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("x;y\\n1,5;2\\n")
    >>> frame, notes = read_delimited(path, (), GUESSED)
    >>> frame.to_dict("list"), notes
    ({'x': [1.5], 'y': [2]}, ['cells are separated by semicolons (--sep)', 'numbers have a decimal comma (--decimal)'])
    """
    head = _head(path)
    encoding = writing.encoding or next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
    try:
        return _read(path, text, writing, encoding, head)
    except UnicodeDecodeError:
        if writing.encoding is not None or b"\0" in head:
            raise
        frame, notes = _read(path, text, writing, "cp1252", head)
        return frame, ["the text is no UTF-8 and is read as Windows-1252 (--encoding)", *notes]
    except LookupError:
        raise InputError(f"{path}: there is no encoding {encoding!r}; try utf-8, cp1252 or utf-16") from None


def _read(
    path: Path, text: tuple[str, ...], writing: Writing, encoding: str, head: bytes
) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    usual = "\t" if ".tsv" in path.name.lower() else ","
    sep, notes = writing.sep, list[str]()
    if sep is None:
        sep = _separator(head.decode(encoding, "replace"), usual, whole=len(head) < _HEAD)
        notes += [f"cells are separated by {SEPARATORS[sep]} (--sep)"] if sep != usual else []
    sep = "\t" if sep == "\\t" else sep
    if len(sep) != 1:
        raise InputError(f"{path}: cells are separated by one character (--sep), got {sep!r}")
    header = pd.read_csv(
        path, sep=sep, header=None, nrows=1, dtype=str, keep_default_na=False, index_col=False, encoding=encoding
    )
    names = [str(name).strip() or f"{UNNAMED} {place}" for place, name in enumerate(header.iloc[0], 1)]
    refuse_repeated(path, names)
    frame = pd.read_csv(
        path,
        sep=sep,
        header=0,
        index_col=False,
        low_memory=False,
        converters={place: str for place, name in enumerate(names) if name in text},
        float_precision="round_trip",  # the quick way may miss the last digit
        decimal=writing.decimal or ".",
        encoding=encoding,
    )
    frame.columns = pd.Index(names)
    if writing.decimal is None and sep != "," and _with_points(frame, text):
        notes.append("numbers have a decimal comma (--decimal)")
    return frame, notes


def _head(path: Path) -> bytes:
    name = path.name.lower()
    opened: Any = gzip.open if name.endswith(".gz") else lzma.open if name.endswith(".xz") else None
    with path.open("rb") as packed:
        if opened is None:
            return packed.read(_HEAD)
        with opened(packed) as file:
            found: bytes = file.read(_HEAD)
            _refuse_bomb(path, packed, file)
            return found


def _refuse_bomb(path: Path, packed: Any, file: Any) -> None:
    """Raise if a small file would fill the memory; text of the usual density ends the search at once."""
    unpacked = _HEAD
    while step := len(file.read(1 << 24)):
        unpacked += step
        if unpacked < 200 * packed.tell():
            return
        if unpacked > BOMB:
            raise InputError(
                f"{path}: {packed.tell() / 1e6:,.1f} MB of it have become {unpacked / 1e6:,.0f} MB of text, which "
                "looks as if it were to fill the memory; if it is meant, unpack it first"
            )


def _separator(head: str, usual: str, *, whole: bool) -> str:
    """The usual one if it gives rows of one length above 1, else another that does, else the usual one."""
    lines = head if whole else head[: head.rfind("\n") + 1]

    def columns(sep: str) -> int:
        try:
            rows = csv.reader(io.StringIO(lines), delimiter=sep)
            widths = {len(row) for row, _ in zip(rows, range(50), strict=False) if row}
        except csv.Error:
            return 0
        return widths.pop() if len(widths) == 1 else 0

    others = {sep: columns(sep) for sep in SEPARATORS if sep != usual}
    best = max(others, key=lambda sep: others[sep])
    return best if columns(usual) <= 1 < others[best] and usual not in head.partition("\n")[0] else usual


def _with_points(frame: pd.DataFrame, text: tuple[str, ...]) -> bool:
    """Make numbers of the columns whose text is numbers with a decimal comma; whether there are any."""
    import pandas as pd

    found = False
    for name in frame.columns:
        column = frame[name]
        if name in text or not pd.api.types.is_object_dtype(column.dtype):
            continue
        filled = column.dropna().astype(str)
        if filled.str.contains(",", regex=False).any() and filled.str.fullmatch(_COMMA).all():
            frame[name] = pd.to_numeric(column.str.replace(",", ".", regex=False))
            found = True
    return found


def refuse_repeated(path: Path, names: list[str]) -> None:
    """Every column needs a name of its own."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{path}: there are {names.count(repeated[0])} columns called {repeated[0]!r}; every column needs "
            f"a name of its own"
        )
