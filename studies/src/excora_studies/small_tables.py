"""The eight small UCI sets of the paper's App. F, read from a user's folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from excora.errors import InputError, MissingExtraError

try:
    import pandas as pd
except ModuleNotFoundError as error:
    if error.name != "pandas":
        raise
    raise MissingExtraError("pandas", "app") from error


class Source(NamedTuple):
    """A file, how to read it, the column to predict and the columns that must not be seen."""

    file: str
    read: Callable[[Path], Any]
    target: Any
    drop: tuple[Any, ...] = ()
    categorical: tuple[Any, ...] = ()  # besides the columns of text


def _excel(path: Path) -> Any:
    with warnings.catch_warnings():  # openpyxl warns of a formatting extension that holds no data
        warnings.filterwarnings("ignore", "Unknown extension", UserWarning)
        return pd.read_excel(path)


SETS = {
    "Automobile": Source("imports-85.data", lambda p: pd.read_csv(p, header=None, na_values="?"), 25),
    "Auto MPG": Source(
        "auto-mpg.data",
        # The car's name ends the line after a tab; the other fields stand in columns of blanks.
        lambda p: pd.read_csv(p, header=None, na_values="?", sep=r"\s+", usecols=range(8)),
        0,
        categorical=(7,),
    ),
    "Bike Sharing": Source(
        "day.csv",
        pd.read_csv,
        "cnt",
        ("instant", "dteday", "casual", "registered"),
        ("season", "weekday", "weathersit"),
    ),
    "Garment": Source("garments_worker_productivity.csv", pd.read_csv, "actual_productivity", ("date",), ("team",)),
    "Real Estate": Source("Real estate valuation data set.xlsx", _excel, "Y house price of unit area", ("No",)),
    "Servo": Source("servo.data", lambda p: pd.read_csv(p, header=None, skipinitialspace=True), 4),
    # The paper's unnamed "Shares" set, as we read it; ISE_TL is the target in another currency.
    "Shares": Source("data_akbilgic.xlsx", _excel, "ISE_USD", ("date", "ISE_TL")),
    "Solar Flare": Source("flare.data2", lambda p: pd.read_csv(p, sep=r"\s+"), "C", ("M", "X")),
}


#: The files of the eight sets.
FILES = tuple(source.file for source in SETS.values())


def find_folder(data: Path | None, files: Sequence[str] = FILES) -> Path:
    """The folder of the files, or its uci/: ``data``, else EXCORA_DATA."""
    root = data or (Path(os.environ["EXCORA_DATA"]) if os.environ.get("EXCORA_DATA") else None)
    if root is None:
        raise InputError(
            f"this study reads {', '.join(files)}: give their folder with --data or in EXCORA_DATA; "
            "python -m excora_studies.download DIR fetches some"
        )
    for folder in (root / "uci", root):
        if all((folder / file).exists() for file in files):
            return folder
    missing = [file for file in files if not (root / "uci" / file).exists()]
    raise InputError(
        f"the UCI files of this study must be in {root} or its folder uci; missing: {', '.join(missing)}; "
        "give their folder with --data or in EXCORA_DATA; python -m excora_studies.download DIR fetches some"
    )


def load(name: str, folder: Path) -> tuple[Any, Any, Any]:
    """(numeric with NaN where missing, categorical codes with 0 where missing, target), as pandas objects."""
    source = SETS[name]
    frame = source.read(folder / source.file)
    frame = frame[frame[source.target].notna()].drop(columns=list(source.drop)).reset_index(drop=True)
    target = frame.pop(source.target).astype("float64")
    words = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c]) or c in source.categorical]
    codes = pd.DataFrame({c: frame[c].map(_strip).astype("category").cat.codes + 1 for c in words}, index=frame.index)
    return frame.drop(columns=words).astype("float64"), codes.astype("int64"), target


def _strip(value: Any) -> Any:
    """Garment has "finishing" and "finishing " for one department."""
    return value.strip() if isinstance(value, str) else value
