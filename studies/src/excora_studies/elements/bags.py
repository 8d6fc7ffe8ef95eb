"""Superconductors as bags of chemical elements.

A material is a bag of one to nine elements; an element is its eight properties, which one it is (one-hot), its fraction
f, log f, and waves of f, because the last percent of an element may decide: sin(2^k pi f), cos(2^k pi f), k < 6.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset
from excora.errors import InputError
from excora_studies.small_tables import find_folder
from excora_studies.tabular.sets import load

FILE = "superconduct_bags.npz"
WAVES = 6  # of a fraction


class Materials(NamedTuple):
    """Bags and features of the same materials."""

    table: Dataset
    bags: list[NDArray[np.float32]]  #: (elements, width) each
    element: NDArray[np.intp]  #: (n, 9); below 0 behind the last element
    fraction: NDArray[np.float64]  #: (n, 9)
    names: list[str]


def read(data: Path | None, materials: int | None = None) -> Materials:
    """The first ``materials`` of both files (None: all), in the same order; else an :class:`InputError`."""
    table = load("Superconductivity", data)
    with np.load(find_folder(data, [FILE]) / FILE, allow_pickle=False) as file:
        stored = {name: file[name] for name in file.files}
    assert table.target is not None
    assert table.group is not None
    label = stored["critical_temp"]
    if label.shape != (len(table),) or not np.allclose(label, table.target[:, 0], rtol=1e-9):  # text loses a digit
        raise InputError(f"{FILE} and superconductivity.csv.xz must list the same materials in the same order")
    n = min(materials or len(table), len(table))
    element, fraction = stored["element"][:n].astype(np.intp), stored["fraction"][:n]
    bags = _bags(element, fraction, stored["element_table"])
    return Materials(table.take(np.arange(n)), bags, element, fraction, stored["element_names"].tolist())


def _bags(
    element: NDArray[np.intp], fraction: NDArray[np.float64], properties: NDArray[np.float64]
) -> list[NDArray[np.float32]]:
    real = element >= 0
    which, f = element[real], fraction[real][:, None]
    angle = f * np.pi * 2.0 ** np.arange(WAVES)
    parts = [properties[which], np.eye(len(properties))[which], f, np.log(f), np.sin(angle), np.cos(angle)]
    return np.split(np.concatenate(parts, 1).astype(np.float32), real.sum(1).cumsum()[:-1])
