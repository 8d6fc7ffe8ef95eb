"""The real tasks of the study: samples, split, what is resampled together, the host and its arms."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.data.splits import Split, folds
from excora.data.table import Table
from excora.errors import InputError, MissingExtraError
from excora.stats.units import sample_units
from excora_studies.gains.arms import ABLATED, BAGS, FEW, FEW_NEIGHBOURS, HERE, NEIGHBOURS, PLAIN, SHORT, TABLES
from excora_studies.small_tables import SETS as SMALL
from excora_studies.small_tables import find_folder
from excora_studies.small_tables import load as load_small
from excora_studies.tabular import sets

Floats = NDArray[np.float64]
#: Principal components of the genes that her2st asks for, and the sections in the order in which seeds hold them out.
COMPONENTS, GENES, SECTIONS = 8, 250, ("B4", "C2", "C3", "C4", "C5", "C6")

#: Of MOSI by video.
FOLDS = 5


class Sample(NamedTuple):
    """What one seed learns from and is tested on."""

    dataset: Dataset
    split: Split
    unit: NDArray[np.intp]  #: (n,) resampled together


@dataclass(frozen=True)
class Task:
    """A set and its split. ``read(data, rows, seed)``; ``rows``: how many samples at most, None for all."""

    name: str
    read: Callable[[Path | None, int | None, int], Sample]
    arms: tuple[str, ...]
    host: str  #: in words
    encoder: str  #: what the elements have passed: "frozen", "trained"
    reference: str = "softmax"  #: what every arm is compared with
    settings: dict[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = (5e-4, 1e-3, 2e-3)
    decays: tuple[float, ...] = (1e-2, 1.0)
    rows: int | None = None


def bags_of(values: NDArray[Any], lengths: NDArray[np.intp], target: Floats, **more: Any) -> Dataset:
    """Bags end to end, as a data set."""
    ids = np.arange(len(target)).astype(str).astype(object)
    names = tuple(f"y{k}" for k in range(target.shape[1]))
    content = BagSet(ArrayBags(values.astype(np.float32), lengths.tolist()))
    return Dataset(ids=ids, targets=names, target=target, content=content, **more)


def _root(data: Path | None, *files: str) -> Path:
    root = data or (Path(os.environ["EXCORA_DATA"]) if os.environ.get("EXCORA_DATA") else None)
    if root is None or not all((root / file).exists() for file in files):
        raise InputError(f"this part reads {', '.join(files)}: give their folder with --data or in EXCORA_DATA")
    return root


def _clips(data: Path | None) -> tuple[NDArray[Any], NDArray[np.intp], list[dict[str, str]]]:
    """Word pieces end to end, how many a clip has, and the rows of the table of labels."""
    tokens, labels = "mosi/mosi_minilm_tokens.npz", "mosi/mosi_labels_transcripts.csv"
    root = _root(data, tokens, labels)
    with np.load(root / tokens, allow_pickle=False) as file:
        values, lengths = file["values"], file["lengths"].astype(np.intp)
    with (root / labels).open(encoding="utf-8", newline="") as text:
        return values, lengths, list(csv.DictReader(text))


def _mosi(data: Path | None, rows: int | None, seed: int) -> Sample:  # noqa: ARG001  (one split: the official one)
    values, lengths, found = _clips(data)
    y, part = np.array([[float(row["label"])] for row in found]), np.array([row["split_standard"] for row in found])
    parts = (np.flatnonzero(part == name)[:rows] for name in ("train", "valid", "test"))
    return Sample(bags_of(values, lengths, y), Split(*parts), np.arange(len(y)))


def _mosi_folds(data: Path | None, rows: int | None, seed: int) -> Sample:  # noqa: ARG001  (all of them)
    """Seed k tests fold k of five: whole videos, and every clip once."""
    values, lengths, found = _clips(data)
    y, video = np.array([[float(row["label"])] for row in found]), np.array([row["video_id"] for row in found], object)
    dataset = bags_of(values, lengths, y, group=video)
    unit = np.unique(video, return_inverse=True)[1].astype(np.intp)
    return Sample(dataset, folds(dataset, folds=FOLDS, seed=0)[seed % FOLDS], unit)


def _materials(split: str, data: Path | None, rows: int | None, seed: int) -> Sample:
    from excora_studies.elements.bags import read

    found = read(data)
    n = len(found.bags)
    keep = np.sort(np.random.default_rng(0).permutation(n)[: rows or n])
    table, bags = found.table.take(keep), [found.bags[k] for k in keep]
    assert table.target is not None
    lengths = np.array([len(bag) for bag in bags], np.intp)
    dataset = bags_of(np.concatenate(bags), lengths, table.target, group=table.group)
    assert table.group is not None
    group = np.unique(table.group, return_inverse=True)[1].astype(np.intp)  # compositions whole, in either split
    return Sample(dataset, sets.make_split(dataset, split, seed), sample_units(len(keep), group=group))


def _her2st(data: Path | None, rows: int | None, seed: int) -> Sample:
    """A spot's 4 x 4 patches; labels are the first components of the most expressed genes of the training sections."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("h5py", "spatial") from error
    root = _root(data, *(f"her2st/features/{name}.h5" for name in SECTIONS)) / "her2st"
    grids, counts, section = [], [], []
    for number, name in enumerate(SECTIONS):
        with h5py.File(root / "features" / f"{name}.h5") as file:
            grid, spots = file["grid"][:rows], [spot.decode() for spot in file["barcodes"][:rows]]
        table = pd.read_csv(root / "ST-cnts" / f"{name}.tsv.gz", sep="\t", index_col=0)
        known = np.array([spot in table.index for spot in spots])
        grids.append(grid[known])
        counts.append(table.loc[[spot for spot, there in zip(spots, known, strict=True) if there]])
        section += [number] * int(known.sum())
    where, patches = np.array(section), np.concatenate(grids)
    held = seed % len(SECTIONS), (seed + 1) % len(SECTIONS)
    parts = Split(*map(np.flatnonzero, (~np.isin(where, held), where == held[1], where == held[0])))
    y = components(pd.concat(counts, join="inner").to_numpy(float), parts.train)
    lengths = np.full(len(y), patches.shape[1], np.intp)
    return Sample(bags_of(patches.reshape(-1, patches.shape[2]), lengths, y), parts, np.arange(len(y)))


def components(counts: Floats, train: NDArray[np.intp]) -> Floats:
    """log1p of counts per 10,000, the most expressed genes, on their first principal directions in ``train``."""
    x = np.log1p(1e4 * counts / np.maximum(counts.sum(1, keepdims=True), 1))
    x = x[:, np.argsort(-x[train].mean(0), kind="stable")[:GENES]]
    x = x - x[train].mean(0)
    directions = np.linalg.svd(x[train], full_matrices=False)[2][:COMPONENTS]
    return np.asarray(x @ directions.T)


def _table(name: str, split: str, data: Path | None, rows: int | None, seed: int) -> Sample:
    dataset = sets.load(name, data, rows)
    group = None if dataset.group is None else np.unique(dataset.group, return_inverse=True)[1].astype(np.intp)
    unit = sample_units(len(dataset), group=group, time=dataset.time)
    made = sets.make_split(dataset, split, seed)
    return Sample(dataset if split == "grouped" else _ungrouped(dataset), made, unit)


def _ungrouped(dataset: Dataset) -> Dataset:
    """Without groups and times, which a random split does not heed."""
    return Dataset(ids=dataset.ids, targets=dataset.targets, target=dataset.target, content=dataset.content)


def _small(name: str, data: Path | None, rows: int | None, seed: int) -> Sample:
    numeric, codes, target = load_small(name, find_folder(data))
    frame = pd.concat([numeric, codes.astype(str).astype(object)], axis=1)
    frame.columns = [str(column) for column in frame.columns]
    y = target.to_numpy(np.float64)[:rows, None]
    ids = np.arange(len(y)).astype(str).astype(object)
    dataset = Dataset(ids=ids, targets=(name,), target=y, content=Table(frame[:rows]))
    rest, test = train_test_split(np.arange(len(y)), test_size=sets.HOLD_OUT, random_state=seed)
    train, validation = train_test_split(rest, test_size=sets.HOLD_OUT, random_state=seed)
    return Sample(dataset, Split(train, validation, test), np.arange(len(y)))


_LINEAR = {"layers": 0, "batch_size": 64, "epochs": 40, "patience": 5, "criterion": "pcc", "correlation": "none"}
_ENCODED = _LINEAR | {"layers": 1, "dim": 64}
_DEEP = _LINEAR | {"layers": 2, "dim": 64, "batch_size": 256, "epochs": 40}
_ROWS = {"criterion": "pcc", "correlation": "none", "epochs": 60}
#: Patience and steps of tables whose best epoch comes early, and of Superconductivity, where a patience of 6 stopped
#: softmax in its third epoch on two splits of five.
_EARLY, _LATE = (6, (1e-4, 3e-4, 1e-3)), (15, (5e-4, 1e-3, 2e-3))
_SUBSET, _THINNED = 5000, 4000

TASKS = {
    task.name: task
    for task in (
        Task("MOSI tokens, frozen", _mosi, BAGS, "linear head", "frozen", settings=_LINEAR | {"start": "none"}),
        Task("MOSI by video, frozen", _mosi_folds, FEW, "linear head, five folds", "frozen",
             settings=_LINEAR | {"start": "none"}),
        *(
            Task(f"small table: {name}", partial(_small, name), TABLES, "table", "none", HERE)
            for name in SMALL
        ),
        Task("her2st sub-patches", _her2st, SHORT, "linear head, ridge start", "frozen",
             settings=_LINEAR | {"start": "ridge"}, rates=(1e-5, 1e-4, 1e-3)),
        *(
            Task(f"{name}, {split}", partial(_table, name, split), NEIGHBOURS, "retrieval", "trained",
                 settings=_ROWS | {"patience": patience}, rates=rates, decays=(1e-2, 0.1), rows=_THINNED)
            for name, split, (patience, rates) in (
                ("Superconductivity", "grouped", _LATE), ("Appliances", "random", _EARLY),
            )
        ),
        *(
            Task(f"superconductor bags, {split}", partial(_materials, split), pools, "linear head", "trained",
                 settings=_DEEP | {"start": "none"}, rows=_SUBSET, rates=(1e-3, 3e-3, 1e-2))
            for split, pools in (("random", SHORT), ("grouped", PLAIN))
        ),
        Task("MOSI tokens, with encoder", _mosi, (*SHORT, *ABLATED), "one layer, linear head", "trained",
             settings=_ENCODED | {"start": "none"}),
        *(
            Task(f"{name}, {split}", partial(_table, name, split), FEW_NEIGHBOURS, "retrieval", "trained",
                 settings=_ROWS | {"patience": patience}, rates=rates, decays=(1e-2, 0.1), rows=_THINNED)
            for name, split, (patience, rates) in (
                ("Superconductivity", "random", _LATE), ("Appliances", "time", _EARLY),
                ("News (partial)", "random", _EARLY),
            )
        ),
    )
}  # fmt: skip
