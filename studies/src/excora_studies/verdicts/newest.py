"""Sets that were looked at once, after the rules had been set on all others.

Most are of sources that no rule has seen: the tables that scikit-learn brings along. The others are further columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from excora_studies.small_tables import SETS
from excora_studies.verdicts.fresh import Other, table_of
from excora_studies.verdicts.sets import Floats, Samples, as_bags, as_table

COLUMNS = {
    "humidity of a day": Other("day.csv", "hum", ("instant", "dteday", "casual", "registered", "cnt")),
    "visibility": Other("energydata_complete.csv.xz", "Visibility", ("date", "Appliances", "rv1", "rv2")),
    "pressure of the air": Other("energydata_complete.csv.xz", "Press_mm_hg", ("date", "Appliances", "rv1", "rv2")),
    "age of a house": Other(
        "Real estate valuation data set.xlsx", "X2 house age", ("No",), SETS["Real Estate"].read,
    ),
    "displacement": Other("auto-mpg.data", 2, (), SETS["Auto MPG"].read),
    "images of news": Other("online_news_partial.csv.xz", "num_imgs", ("shares", "source", "digits")),
}  # fmt: skip
LOADERS = {"wine": load_wine, "breast": load_breast_cancer, "iris": load_iris, "diabetes": load_diabetes}


def _column(name: str, column: int, _: Path | None) -> Samples:
    """A column of a table of scikit-learn from the others, and from its label."""
    x, y = LOADERS[name](return_X_y=True)
    whole = np.column_stack([x, y]).astype(float)
    return as_table(np.delete(whole, column, 1), np.zeros((len(x), 0), int), whole[:, column])


def _digits() -> tuple[Floats, Floats]:
    found = load_digits()
    return found.images.astype(float), found.target.astype(float)


def _pixels(_: Path | None) -> Samples:
    """Which digit, as a number, from its 64 pixels."""
    images, y = _digits()
    return as_table(images.reshape(len(y), -1), np.zeros((len(y), 0), int), y)


def _lines(_: Path | None) -> Samples:
    """The same from a bag of its 8 lines, each with its place."""
    images, y = _digits()
    place = np.eye(8)
    return as_bags([np.concatenate([one, 4 * place], 1) for one in images], y)


def _ink(_: Path | None) -> Samples:
    """How dark a line of a digit is, from a bag of the 7 others."""
    images = _digits()[0]
    place = np.delete(np.eye(8), 3, 0)
    bags = [np.concatenate([np.delete(one, 3, 0), 4 * place], 1) for one in images]
    return as_bags(bags, images[:, 3].sum(1))


NEWEST: dict[str, Callable[[Path | None], Samples]] = {
    **{name: functools.partial(table_of, other) for name, other in COLUMNS.items()},
    "alcohol of wine": functools.partial(_column, "wine", 0),
    "magnesium of wine": functools.partial(_column, "wine", 4),
    "smoothness of nuclei": functools.partial(_column, "breast", 4),
    "error of symmetry": functools.partial(_column, "breast", 18),
    "length of sepals": functools.partial(_column, "iris", 0),
    "blood pressure": functools.partial(_column, "diabetes", 3),
    "digits": _pixels, "digits by lines": _lines, "ink of a line": _ink,
}  # fmt: skip
