"""What a start from ridge gives: test PCC of ridge, and of networks without and with it, on small real sets.

Tables: the 8 small UCI sets, diabetes of scikit-learn, and 500 rows of four large ones; bags: 600 materials as bags of
their chemical elements, and 16 windows of each of 400 spots (one gene). Three seeds of split and start; a part of
60/20/20 each, epochs and start by validation, the test part predicted once. Ridge: penalty by exact leave-one-out.

``python -m checks.ridge_start STORE [MODEL ...]``: STORE, a file of lines, keeps what is done, so that a run goes on
where it ended; the sets from EXCORA_DATA.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.data.splits import split
from excora.data.table import Table
from excora.peers.baselines import baselines
from excora.settings import Settings
from excora.stats.scores import score
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import predictions
from excora_studies.small_tables import SETS, find_folder, load

SEEDS = (0, 1, 2)
ARMS = ("none", "auto")
ROWS = 500


def dataset(target: Any, content: Any, group: Any = None) -> Dataset:
    """One target."""
    y = np.asarray(target, np.float64).reshape(-1, 1)
    return Dataset(np.arange(len(y)).astype(str).astype(object), ("y",), y, content, group)


def small(name: str) -> Dataset:
    """A small UCI set."""
    numeric, codes, target = load(name, find_folder(None))
    frame = pd.concat([numeric, codes.astype(str).astype(object)], axis=1).rename(columns=str)
    return dataset(target, Table(frame))


def large(file: str, target: str, drop: tuple[str, ...] = (), *, log: bool = False) -> Dataset:
    """:data:`ROWS` rows of a large UCI set, always the same."""
    frame = pd.read_csv(find_folder(None) / file).sample(ROWS, random_state=0).reset_index(drop=True)
    y = frame.pop(target)
    return dataset(np.log(y) if log else y, Table(frame.drop(columns=list(drop)).select_dtypes("number")))


def diabetes() -> Dataset:
    """442 rows that ship with scikit-learn."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, as_frame=True)
    return dataset(y, Table(x))


def materials() -> Dataset:
    """600 bags of chemical elements: properties and share of each."""
    found = np.load(find_folder(None) / "superconduct_bags.npz")
    rows = np.random.default_rng(0).permutation(len(found["element"]))[:600]
    element, share = found["element"][rows], found["fraction"][rows]
    there = element >= 0
    values = np.column_stack([found["element_table"][element[there]], share[there]])
    return dataset(found["critical_temp"][rows], BagSet(ArrayBags(values.astype(np.float32), there.sum(1))))


@functools.cache  # half a minute of reading
def spots() -> Dataset:
    """400 spots of six sections (groups): 16 windows each as a bag, the mean of the 20 largest genes as label."""
    import h5py

    folder, bags, counts, section = Path(os.environ["EXCORA_DATA"]) / "her2st", [], [], []
    for path in sorted((folder / "features").glob("*.h5")):
        table = pd.read_csv(folder / "ST-cnts" / f"{path.stem}.tsv.gz", sep="\t", index_col=0)
        with h5py.File(path) as file:
            names = [name.decode() for name in file["barcodes"][:]]
            bags.append(file["grid"][:].astype(np.float32))
        counts.append(table.loc[names])
        section += [path.stem] * len(names)
    table = pd.concat(counts).fillna(0.0)
    level = np.log1p(1e4 * table.div(table.sum(1), axis=0))
    y = level[level.mean().nlargest(20).index].mean(1).to_numpy()
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:400])
    grid = np.concatenate(bags)[rows]
    content = BagSet(ArrayBags(grid.reshape(-1, grid.shape[2]), [grid.shape[1]] * len(rows)))
    return dataset(y[rows], content, np.array(section, object)[rows])


TABLES: dict[str, Callable[[], Dataset]] = {
    **{name: (lambda name=name: small(name)) for name in SETS},
    "diabetes": diabetes,
    "energy, 500": lambda: large("energydata_complete.csv.xz", "Appliances", ("rv1", "rv2")),
    "superconductivity, 500": lambda: large("superconductivity.csv.xz", "critical_temp"),
    "news (partial), 500": lambda: large("online_news_partial.csv.xz", "shares", ("digits",), log=True),
    "bikes by the hour, 500": lambda: large("hour.csv", "cnt", ("instant", "casual", "registered")),
}
BAGS: dict[str, Callable[[], Dataset]] = {"materials": materials, "spots": spots}


def cases(models: list[str]) -> Iterator[tuple[str, str, Callable[[], Dataset]]]:
    """Model, name of the set, set."""
    for model in models:
        kinds = TABLES if model == "ft-transformer" else BAGS if model == "pool" else {}
        yield from ((model, name, make) for name, make in kinds.items())


def run(model: str, data: Dataset, seed: int) -> dict[str, Any]:
    """Test PCC of every arm on one split."""
    parts = split(data, validation=0.2, test=0.2, seed=seed)
    found: dict[str, Any] = {}
    for arm in ARMS:
        begun = time.process_time()
        setup = Settings(model=model, start=arm, seed=seed, accelerator="cpu").settled(data.kind, len(parts.train))
        built = build(data, parts.train, setup, validation=parts.validation)
        training = train(
            built.network, built.features, built.target, parts, setup.recipe, setup.machine, progress=False
        )
        prediction = built.preparation.unscale(predictions(training.network, built.features, parts.test, setup))
        found[arm] = score(prediction, data.target[parts.test]).pcc
        found[f"{arm}, epoch"] = training.best_epoch
        found[f"{arm}, seconds"] = time.process_time() - begun
        if arm == "auto":
            found["start"] = built.start.kind
            found |= {one["name"]: one["test"]["pcc"] for one in simple(data, parts, built, setup)}
    return found


def simple(data: Dataset, parts: Any, built: Any, setup: Any) -> list[dict[str, Any]]:
    """The baselines of the same split."""
    return baselines(data, parts, built.preparation, setup.recipe).records({"test": parts.test})


def main() -> None:
    torch.set_num_threads(1)
    store, models = Path(sys.argv[1]), sys.argv[2:] or ["ft-transformer", "pool"]
    done = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    for seed in SEEDS:
        for model, name, make in cases(models):
            key = {"model": model, "set": name, "seed": seed}
            if any(key.items() <= one.items() for one in done):
                continue
            done.append(key | run(model, make(), seed))
            with store.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    table(pd.DataFrame(done))


def table(done: pd.DataFrame) -> None:
    """Means over seeds, and the largest loss against ridge."""
    print("| model | set | ridge | LightGBM | none | auto | auto - ridge | starts from ridge | kept ridge |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (model, name), rows in done.groupby(["model", "set"], sort=False):
        means = [float(rows[column].mean()) for column in ("ridge", "LightGBM", *ARMS)]
        gap = float((rows["auto"] - rows["ridge"]).mean())
        ridges, kept = int((rows["start"] == "ridge").sum()), int((rows["auto, epoch"] < 0).sum())
        cells = " | ".join(f"{value:.3f}" for value in means)
        print(f"| {model} | {name} | {cells} | {gap:+.3f} | {ridges} of {len(rows)} | {kept} |")


if __name__ == "__main__":
    main()
