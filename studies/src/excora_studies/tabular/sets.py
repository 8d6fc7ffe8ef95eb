"""The three sets of Table 1 and their splits: a random one, as everybody reports, and an honest one.

Appliances has a row every ten minutes, so a random split puts near copies on both sides; Superconductivity repeats
compositions. The honest splits are in time order, and by composition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.data.table import Table
from excora_studies.small_tables import find_folder

HOLD_OUT = 0.2  # of all rows for test, of the rest for validation


class Source(NamedTuple):
    """A set: its files, how they become a data set, and its splits, the honest one last."""

    files: tuple[str, ...]
    read: Callable[[Path], Dataset]
    splits: tuple[str, ...]


def _dataset(
    frame: pd.DataFrame,
    target: NDArray[np.float64],
    name: str,
    *,
    group: NDArray[np.object_] | None = None,
    time: NDArray[np.float64] | None = None,
) -> Dataset:
    ids = np.arange(len(frame)).astype(str).astype(object)
    return Dataset(
        ids=ids, targets=(name,), target=target[:, None], content=Table(frame.astype("float64")), group=group, time=time
    )


def _appliances(folder: Path, *, clock: bool) -> Dataset:
    """27 numbers; with ``clock`` also the time of day (as a point on a circle) and the weekday, one column each."""
    frame = pd.read_csv(folder / "energydata_complete.csv.xz", skipinitialspace=True)
    date = pd.to_datetime(frame.pop("date"))
    target = frame.pop("Appliances").to_numpy(dtype=np.float64)
    if clock:
        turn = 2 * np.pi * (date.dt.hour * 60 + date.dt.minute).to_numpy() / 1440
        frame["clock_sin"], frame["clock_cos"] = np.sin(turn), np.cos(turn)
        frame = pd.concat([frame, pd.get_dummies(date.dt.weekday, prefix="weekday")], axis=1)
    seconds = np.asarray((date - date.iloc[0]).dt.total_seconds(), dtype=np.float64)
    return _dataset(frame, target, "Appliances", time=seconds)


def _superconductivity(folder: Path) -> Dataset:
    frame = pd.read_csv(folder / "superconductivity.csv.xz")
    composition = pd.read_csv(folder / "superconduct_composition.csv.xz")["composition"]
    target = frame.pop("critical_temp").to_numpy(dtype=np.float64)
    return _dataset(frame, target, "critical_temp", group=composition.to_numpy(dtype=object))


def _news(folder: Path) -> Dataset:
    frame = pd.read_csv(folder / "online_news_partial.csv.xz").drop(columns=["source", "digits"])
    target = np.log(frame.pop("shares").to_numpy(dtype=np.float64))
    return _dataset(frame, target, "log shares")


_ENERGY, _MATERIALS = ("energydata_complete.csv.xz",), ("superconductivity.csv.xz", "superconduct_composition.csv.xz")
SETS = {
    "Appliances": Source(_ENERGY, lambda folder: _appliances(folder, clock=False), ("random", "time")),
    "Appliances + clock": Source(_ENERGY, lambda folder: _appliances(folder, clock=True), ("random", "time")),
    "Superconductivity": Source(_MATERIALS, _superconductivity, ("random", "grouped")),
    "News (partial)": Source(("online_news_partial.csv.xz",), _news, ("random",)),
}


def load(name: str, data: Path | None, samples: int | None = None) -> Dataset:
    """The set of that name, from the user's folder; ``samples``: so many of its rows, evenly spaced."""
    source = SETS[name]
    dataset = source.read(find_folder(data, source.files))
    if samples is None or samples >= len(dataset):
        return dataset
    rows = np.linspace(0, len(dataset) - 1, samples).astype(np.intp)
    return dataset.take(rows)


def make_split(dataset: Dataset, kind: str, seed: int) -> Split:
    """Training, validation and test rows. Another seed is another split, but for the one in time order."""
    rows = np.arange(len(dataset))
    if kind == "time":
        assert dataset.time is not None
        order = np.argsort(dataset.time, kind="stable")
        last = round(HOLD_OUT * len(order))
        middle = round(HOLD_OUT * (len(order) - last))
        return Split(order[: -last - middle], order[-last - middle : -last], order[-last:])
    if kind == "grouped":
        assert dataset.group is not None
        rest, test = _by_group(rows, dataset.group, seed)
        train, validation = _by_group(rest, dataset.group, seed)
        return Split(train, validation, test)
    rest, test = train_test_split(rows, test_size=HOLD_OUT, random_state=seed)
    train, validation = train_test_split(rest, test_size=HOLD_OUT, random_state=seed)
    return Split(train, validation, test)


def _by_group(
    rows: NDArray[np.intp], group: NDArray[np.object_], seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = next(
        GroupShuffleSplit(n_splits=1, test_size=HOLD_OUT, random_state=seed).split(rows, groups=group[rows])
    )
    return rows[first], rows[second]


def fingerprint(dataset: Dataset, split: Split) -> str:
    """The same for every row of the table, or the comparison is not one: features, target and split, hashed."""
    assert isinstance(dataset.content, Table)
    assert dataset.target is not None
    digest = hashlib.sha256()
    for part in (dataset.content.frame.to_numpy(), dataset.target, *split):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]
