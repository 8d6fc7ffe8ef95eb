"""The sets on which the rules of the verdicts were set."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from excora.data.table import Table
from excora.errors import MissingExtraError
from excora_studies import small_tables
from excora_studies.tabular.sets import load as load_large
from excora_studies.verdicts.sets import ROWS, Floats, Samples, as_bags, as_table, folder_of


def _small(name: str, data: Path | None) -> Samples:
    folder = small_tables.find_folder(data, [small_tables.SETS[name].file])
    numeric, codes, target = small_tables.load(name, folder)
    return as_table(numeric.to_numpy(float), codes.to_numpy(int), target.to_numpy(float))


def _large(name: str, data: Path | None) -> Samples:
    found = load_large(name, data)
    assert found.target is not None
    assert isinstance(found.content, Table)
    numbers = found.content.frame.to_numpy(float)
    return as_table(numbers, np.zeros((len(numbers), 0), int), found.target[:, 0])


def _materials(data: Path | None) -> Samples:
    from excora_studies.elements.bags import read

    found = read(data)
    assert found.table.target is not None
    keep = np.random.default_rng(2).permutation(len(found.bags))[:ROWS]
    return as_bags([found.bags[k].astype(float) for k in keep], found.table.target[keep, 0])


def _word_pieces(data: Path | None) -> Samples:
    root = folder_of(data, "mosi/mosi_minilm_tokens.npz", "mosi/mosi_utterance.npz")
    with np.load(root / "mosi/mosi_minilm_tokens.npz", allow_pickle=False) as file:
        bags = np.split(file["values"].astype(float), np.cumsum(file["lengths"].astype(int))[:-1])
    with (root / "mosi/mosi_labels_transcripts.csv").open(encoding="utf-8", newline="") as text:
        y = np.array([float(row["label"]) for row in csv.DictReader(text)])
    return as_bags(bags, y)


def spots(data: Path | None) -> tuple[list[Floats], pd.DataFrame]:
    """The spots of her2st: 4 x 4 patches each, and their counts, genes that all sections have."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("h5py", "spatial") from error
    root = folder_of(data, "her2st/features/B4.h5", "her2st/ST-cnts/B4.tsv.gz") / "her2st"
    bags: list[Floats] = []
    counts = []
    for path in sorted((root / "features").glob("*.h5")):
        with h5py.File(path) as file:
            grid, names = file["grid"][:], [name.decode() for name in file["barcodes"][:]]
        table = pd.read_csv(root / "ST-cnts" / f"{path.stem}.tsv.gz", sep="\t", index_col=0)
        known = [name in table.index for name in names]
        bags += [patches.astype(float) for patches, there in zip(grid, known, strict=True) if there]
        counts.append(table.loc[[name for name, there in zip(names, known, strict=True) if there]])
    return bags, pd.concat(counts, join="inner")


def expressed(counts: pd.DataFrame, genes: int) -> Floats:
    """log(1 + counts of 10,000) of the genes of the largest mean."""
    x = counts.to_numpy(float)
    x = np.log1p(1e4 * x / np.maximum(x.sum(1, keepdims=True), 1))
    found: Floats = x[:, np.argsort(-x.mean(0), kind="stable")[:genes]]
    return found


def _patches(data: Path | None) -> Samples:
    """The label is the first principal component of the 50 most expressed genes."""
    bags, counts = spots(data)
    x = expressed(counts, 50)
    x = x - x.mean(0)
    return as_bags(bags, x @ np.linalg.svd(x, full_matrices=False)[2][0])


SEEN: dict[str, Callable[[Path | None], Samples]] = {
    **{name: functools.partial(_small, name) for name in small_tables.SETS},
    **{name: functools.partial(_large, name) for name in ("Appliances", "Superconductivity", "News (partial)")},
    "superconductor bags": _materials, "MOSI word pieces": _word_pieces, "her2st patches": _patches,
}  # fmt: skip
