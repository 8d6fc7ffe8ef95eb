"""Further sets: other columns of the same files as targets, other parts of them, and other files.

``LOOKED`` were looked at once after the rules had been set on those of :mod:`.seen`; what failed there changed the
rules again. ``FRESH`` were looked at once after that, and changed them once more. :mod:`.newest` has what came then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from excora.errors import MissingExtraError
from excora_studies.small_tables import SETS, find_folder
from excora_studies.verdicts.seen import expressed, spots
from excora_studies.verdicts.sets import Floats, Samples, as_bags, as_table, folder_of


class Other(NamedTuple):
    """A file, the column that is predicted here, and those that must not be seen."""

    file: str
    target: Any
    drop: tuple[Any, ...]
    read: Callable[[Path], Any] = pd.read_csv


AGAIN = {
    "registered riders": Other("day.csv", "registered", ("instant", "dteday", "casual", "cnt")),
    "casual riders by the hour": Other("hour.csv", "casual", ("instant", "dteday", "registered", "cnt")),
    "weight of cars": Other("auto-mpg.data", 4, (), SETS["Auto MPG"].read),
    "horsepower": Other("imports-85.data", 21, (), SETS["Automobile"].read),
    "shares in Sao Paulo": Other("data_akbilgic.xlsx", "BOVESPA", ("date", "ISE_TL"), SETS["Shares"].read),
    "workers": Other("garments_worker_productivity.csv", "no_of_workers", ("date", "actual_productivity")),
    "humidity outside": Other("energydata_complete.csv.xz", "RH_out", ("date", "Appliances", "rv1", "rv2")),
    "wind": Other("energydata_complete.csv.xz", "Windspeed", ("date", "Appliances", "rv1", "rv2")),
    "polarity": Other("online_news_partial.csv.xz", "avg_positive_polarity", ("shares", "source", "digits")),
    "way to a station": Other(
        "Real estate valuation data set.xlsx", "X3 distance to the nearest MRT station", ("No",),
        SETS["Real Estate"].read,
    ),
}  # fmt: skip
TABLES = {
    "bikes by the hour": Other("hour.csv", "cnt", ("instant", "dteday", "casual", "registered")),
    "casual riders": Other("day.csv", "casual", ("instant", "dteday", "registered", "cnt")),
    "acceleration of cars": Other("auto-mpg.data", 5, (), SETS["Auto MPG"].read),
    "miles a gallon in town": Other("imports-85.data", 23, (24,), SETS["Automobile"].read),
    "shares in Tokyo": Other("data_akbilgic.xlsx", "NIKKEI", ("date", "ISE_TL"), SETS["Shares"].read),
    "overtime": Other("garments_worker_productivity.csv", "over_time", ("date", "actual_productivity")),
    "lights": Other("energydata_complete.csv.xz", "lights", ("date", "Appliances", "rv1", "rv2")),
    "subjectivity": Other("online_news_partial.csv.xz", "global_subjectivity", ("shares", "source", "digits")),
}


def table_of(other: Other, data: Path | None) -> Samples:
    """At most 2,000 rows of it."""
    frame = other.read(find_folder(data, [other.file]) / other.file).drop(columns=list(other.drop))
    frame = frame[frame[other.target].notna()].sample(frac=1.0, random_state=7).head(2000)
    target = frame.pop(other.target).to_numpy(float)
    words = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    codes = np.stack([frame[c].astype("category").cat.codes for c in words], 1) if words else np.zeros((len(frame), 0))
    return as_table(frame.drop(columns=words).to_numpy(float), codes.astype(int), target)


def _diabetes(_: Path | None) -> Samples:
    x, y = load_diabetes(return_X_y=True)
    return as_table(x, np.zeros((len(x), 0), int), y)


def _clips(data: Path | None) -> dict[str, Any]:
    """The clips of MOSI whose labels its features have not seen."""
    with np.load(folder_of(data, "mosi/mosi_utterance.npz") / "mosi/mosi_utterance.npz", allow_pickle=False) as file:
        rows = file["split_bclstm"] == "test"
        return {name: file[name][rows].astype(float) for name in ("text", "audio", "video", "label")}


def _text(data: Path | None) -> Samples:
    clips = _clips(data)
    return as_table(clips["text"], np.zeros((len(clips["text"]), 0), int), clips["label"])


def _modalities(data: Path | None) -> Samples:
    """A bag of three: text, audio and video of a clip, eight principal components each, and which it is."""
    clips = _clips(data)
    parts = []
    for k, name in enumerate(("text", "audio", "video")):
        x = clips[name] - clips[name].mean(0)
        x = x / np.maximum(x.std(0), 1e-9)
        x = x @ np.linalg.svd(x, full_matrices=False)[2][:8].T
        parts.append(np.concatenate([x / x.std(0), np.tile(np.eye(3)[k], (len(x), 1))], 1))
    return as_bags(list(np.stack(parts, 1)), clips["label"])


def _brain(data: Path | None) -> tuple[Floats, Floats]:
    """Spots of a mouse brain: log expression, the most variable gene first, and their place on the hexagonal grid."""
    try:
        import h5py
        from scipy.sparse import csc_matrix
    except ModuleNotFoundError as error:
        raise MissingExtraError("h5py", "spatial") from error
    root = folder_of(data, "visium/mousebrain/filtered_feature_bc_matrix.h5") / "visium/mousebrain"
    with h5py.File(root / "filtered_feature_bc_matrix.h5") as file:
        matrix = file["matrix"]
        counts = csc_matrix((matrix["data"][:], matrix["indices"][:], matrix["indptr"][:]), shape=matrix["shape"][:])
        names = [name.decode() for name in matrix["barcodes"][:]]
    x = np.log1p(counts.toarray().T.astype(float))
    x = x[:, np.argsort(-x.var(0), kind="stable")]
    place = pd.read_csv(root / "spatial/tissue_positions_list.csv", header=None, index_col=0).loc[names, [2, 3]]
    return x, place.to_numpy(float)


def _gene(data: Path | None, gene: int = 0) -> Samples:
    """A gene, the most variable one first, from the 40 most variable others."""
    x, _ = _brain(data)
    return as_table(np.delete(x[:, :41], gene, 1), np.zeros((len(x), 0), int), x[:, gene])


def _around(data: Path | None, gene: int = 0) -> Samples:
    """The same gene of a spot from all genes of its neighbours."""
    x, place = _brain(data)
    there = {tuple(at): k for k, at in enumerate(place)}
    steps = ((0, 2), (0, -2), (1, 1), (1, -1), (-1, 1), (-1, -1))
    near = [[there[at] for s in steps if (at := tuple(one + s)) in there] for one in place]
    kept = [k for k, others in enumerate(near) if others]
    return as_bags([x[near[k]] for k in kept], x[kept, gene])


def _counts(data: Path | None) -> Samples:
    """How many transcripts a spot has, from its patches."""
    bags, counts = spots(data)
    return as_bags(bags, np.log(counts.to_numpy(float).sum(1) + 1))


def _varying(data: Path | None) -> Samples:
    """The gene that varies most of the 50 most expressed ones, from the patches of a spot."""
    bags, counts = spots(data)
    x = expressed(counts, 50)
    return as_bags(bags, x[:, x.var(0).argmax()])


LOOKED: dict[str, Callable[[Path | None], Samples]] = {
    **{name: functools.partial(table_of, other) for name, other in TABLES.items()},
    "diabetes": _diabetes, "text of MOSI": _text, "modalities of MOSI": _modalities, "gene of a mouse brain": _gene,
    "neighbours in a mouse brain": _around, "transcripts of her2st": _counts, "gene of her2st": _varying,
}  # fmt: skip
FRESH: dict[str, Callable[[Path | None], Samples]] = {
    **{name: functools.partial(table_of, other) for name, other in AGAIN.items()},
    "another gene of a mouse brain": functools.partial(_gene, gene=5),
    "another gene and its neighbours": functools.partial(_around, gene=5),
}
