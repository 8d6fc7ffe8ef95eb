"""The real tables and bag sets of the study, small subsamples of them, split into three parts.

Every set is a bag of elements: of a table the columns, each with an embedding of its own, of the others what they are
made of (chemical elements, word pieces, image patches). ``summary`` is what a simple model is given: the columns, or
mean, spread and number of the elements.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from excora.data.table import Table
from excora.errors import InputError, MissingExtraError
from excora_studies import small_tables
from excora_studies.tabular.sets import load as load_large

Floats = NDArray[np.float64]
ROWS = 480  #: at most
WIDTH = 24  #: of an element, by principal components
SMALL = ("Auto MPG", "Bike Sharing", "Garment", "Automobile", "Real Estate", "Servo", "Shares", "Solar Flare")
LARGE = ("Appliances", "Superconductivity", "News (partial)")
BAGS = ("superconductor bags", "MOSI word pieces", "her2st patches")
#: The sets on which thresholds were set; all others were looked at once.
TUNING = ("Auto MPG", "Bike Sharing", "Garment", "Appliances", "superconductor bags")
MEASURED = tuple(name for name in (*SMALL, *LARGE, *BAGS) if name not in TUNING)


class Samples(NamedTuple):
    """Samples of one set: elements (n, k, width) with their mask (n, k), or columns (n, p); labels (n,)."""

    elements: Floats
    mask: NDArray[np.bool_] | None  #: None of a table
    target: Floats

    @property
    def summary(self) -> Floats:
        """(n, s): what a simple model is given."""
        if self.mask is None:
            return self.elements
        count = self.mask.sum(1, keepdims=True)
        real = np.where(self.mask[..., None], self.elements, 0.0)
        mean = real.sum(1) / count
        spread = np.sqrt((np.where(self.mask[..., None], self.elements - mean[:, None], 0.0) ** 2).sum(1) / count)
        return np.concatenate([mean, spread, np.log(count)], 1)

    def without_informative_half(self, rows: NDArray[np.intp]) -> Samples:
        """The same without the half of its features that correlate best with the label on ``rows``."""
        seen = self.elements if self.mask is None else self.summary[:, : self.elements.shape[-1]]
        x, y = seen[rows] - seen[rows].mean(0), self.target[rows] - self.target[rows].mean()
        strength = np.abs(x.T @ y) / np.maximum(np.sqrt((x**2).sum(0)), 1e-12)
        kept = np.sort(np.argsort(strength, kind="stable")[: len(strength) - len(strength) // 2])
        return self._replace(elements=self.elements[..., kept])


def load(name: str, data: Path | None) -> Samples:
    """At most :data:`ROWS` samples, drawn once and for all, standardised."""
    found = _bags(name, data) if name in BAGS else _table(name, data)
    keep = np.random.default_rng(0).permutation(len(found.target))[:ROWS]
    elements, target = found.elements[keep], found.target[keep]
    mask = None if found.mask is None else found.mask[keep]
    flat = elements if mask is None else elements[mask]
    scale = np.maximum(flat.std(0), 1e-9)
    elements = np.clip((elements - flat.mean(0)) / scale, -6, 6)
    if mask is not None:
        elements[~mask] = 0.0
    return Samples(elements, mask, (target - target.mean()) / target.std())


def split(n: int, seed: int) -> tuple[NDArray[np.intp], ...]:
    """Training, validation and test part: 50, 25 and 25 %."""
    order = np.random.default_rng(100 + seed).permutation(n)
    return tuple(np.split(order, [n // 2, n // 2 + n // 4]))


def _table(name: str, data: Path | None) -> Samples:
    if name in SMALL:
        folder = small_tables.find_folder(data, [small_tables.SETS[name].file])
        numeric, codes, target = small_tables.load(name, folder)
        numbers, words, y = numeric.to_numpy(float), codes.to_numpy(int), target.to_numpy(float)
    else:
        found = load_large(name, data)
        assert found.target is not None
        assert isinstance(found.content, Table)
        numbers, y = found.content.frame.to_numpy(float), found.target[:, 0]
        words = np.zeros((len(y), 0), int)
    columns = [np.where(np.isnan(numbers), np.nanmean(numbers, 0), numbers)]
    columns += [(words[:, [k]] == np.unique(words[:, k])).astype(float)[:, :12] for k in range(words.shape[1])]
    x = np.concatenate(columns, 1)
    return Samples(x[:, x.std(0) > 0], None, y)


def _bags(name: str, data: Path | None) -> Samples:
    bags, y = {"superconductor bags": _materials, "MOSI word pieces": _mosi, "her2st patches": _her2st}[name](data)
    keep = np.random.default_rng(1).permutation(len(bags))[:ROWS]
    bags, y = [bags[k] for k in keep], y[keep]
    flat = np.concatenate(bags)
    mean = flat.mean(0)
    directions = np.linalg.svd((flat - mean)[:: max(len(flat) // 4000, 1)], full_matrices=False)[2][:WIDTH]
    lengths = np.array([len(bag) for bag in bags])
    mask = np.arange(lengths.max()) < lengths[:, None]
    elements = np.zeros((*mask.shape, len(directions)))
    elements[mask] = (flat - mean) @ directions.T
    return Samples(elements, mask, y)


def _root(data: Path | None, *files: str) -> Path:
    root = data or (Path(os.environ["EXCORA_DATA"]) if os.environ.get("EXCORA_DATA") else None)
    if root is None or not all((root / file).exists() for file in files):
        raise InputError(f"this study reads {', '.join(files)}: give their folder with --data or in EXCORA_DATA")
    return root


def _materials(data: Path | None) -> tuple[list[Floats], Floats]:
    from excora_studies.elements.bags import read

    found = read(data)
    assert found.table.target is not None
    keep = np.random.default_rng(2).permutation(len(found.bags))[:ROWS]
    return [found.bags[k].astype(float) for k in keep], found.table.target[keep, 0]


def _mosi(data: Path | None) -> tuple[list[Floats], Floats]:
    root = _root(data, "mosi/mosi_minilm_tokens.npz", "mosi/mosi_utterance.npz")
    with np.load(root / "mosi/mosi_minilm_tokens.npz", allow_pickle=False) as file:
        bags = np.split(file["values"].astype(float), np.cumsum(file["lengths"].astype(int))[:-1])
    with (root / "mosi/mosi_labels_transcripts.csv").open(encoding="utf-8", newline="") as text:
        y = np.array([float(row["label"]) for row in csv.DictReader(text)])
    return bags, y


def _her2st(data: Path | None) -> tuple[list[Floats], Floats]:
    """A spot's 4 x 4 patches; the label is the first principal component of the 50 most expressed genes."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("h5py", "spatial") from error
    root = _root(data, "her2st/features/B4.h5", "her2st/ST-cnts/B4.tsv.gz") / "her2st"
    bags: list[Floats] = []
    counts = []
    for path in sorted((root / "features").glob("*.h5")):
        with h5py.File(path) as file:
            grid, names = file["grid"][:], [name.decode() for name in file["barcodes"][:]]
        table = pd.read_csv(root / "ST-cnts" / f"{path.stem}.tsv.gz", sep="\t", index_col=0)
        known = [name in table.index for name in names]
        bags += [patches.astype(float) for patches, there in zip(grid, known, strict=True) if there]
        counts.append(table.loc[[name for name, there in zip(names, known, strict=True) if there]])
    x = pd.concat(counts, join="inner").to_numpy(float)
    x = np.log1p(1e4 * x / np.maximum(x.sum(1, keepdims=True), 1))
    x = x[:, np.argsort(-x.mean(0), kind="stable")[:50]]
    x = x - x.mean(0)
    return bags, x @ np.linalg.svd(x, full_matrices=False)[2][0]
