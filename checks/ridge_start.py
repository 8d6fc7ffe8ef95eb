"""What a start from ridge gives: test PCC of ridge, and of networks without and with it, on small real sets.

Tables: ten of the study ``verdicts`` that no rule was set on; bags: 600 materials as bags of their chemical elements,
and 16 windows of each of 400 spots (one gene). Seeds of split and start; parts of 60/20/20, epochs and start by
validation, the test part predicted once. Ridge: penalty by exact leave-one-out. A model that is not trained in epochs
(kriging) has one arm.

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
from excora.models import models
from excora.peers.baselines import baselines
from excora.settings import Settings
from excora.stats.scores import score
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import predictions
from excora_studies.small_tables import find_folder
from excora_studies.verdicts.fresh import LOOKED
from excora_studies.verdicts.fresh import TABLES as OTHERS

SEEDS = (10, 11)
ARMS = ("none", "auto")


def dataset(target: Any, content: Any, group: Any = None) -> Dataset:
    """One target."""
    y = np.asarray(target, np.float64).reshape(-1, 1)
    return Dataset(np.arange(len(y)).astype(str).astype(object), ("y",), y, content, group)


def fresh(name: str) -> Dataset:
    """A table of the study ``verdicts`` that no rule was set on, at most 480 rows."""
    samples = LOOKED[name](None).standardised()
    return dataset(samples.target, Table(pd.DataFrame(samples.elements).rename(columns=str)))


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


#: Not diabetes, which was seen when the start was made.
TABLES: dict[str, Callable[[], Dataset]] = {
    name: (lambda name=name: fresh(name)) for name in (*OTHERS, "text of MOSI", "gene of a mouse brain")
}
BAGS: dict[str, Callable[[], Dataset]] = {"materials": materials, "spots": spots}


def cases(asked: list[str]) -> Iterator[tuple[str, str, Callable[[], Dataset]]]:
    """Model, name of the set, set."""
    for model in asked:
        kinds = BAGS if model == "pool" else TABLES
        yield from ((model, name, make) for name, make in kinds.items())


def run(model: str, data: Dataset, seed: int) -> dict[str, Any]:
    """Test PCC of every arm on one split."""
    parts = split(data, validation=0.2, test=0.2, seed=seed)
    found: dict[str, Any] = {}
    for arm in ARMS if models[model].trained else ARMS[1:]:
        begun = time.process_time()
        start = {"start": arm} if models[model].trained else {}
        setup = Settings(model=model, seed=seed, accelerator="cpu", **start).settled(data.kind, len(parts.train))
        built = build(data, parts.train, setup, validation=parts.validation)
        training = train(
            built.network, built.features, built.target, parts, setup.recipe, setup.machine, progress=False
        )
        prediction = built.preparation.unscale(predictions(training.network, built.features, parts.test, setup))
        found[arm] = score(prediction, data.target[parts.test]).pcc
        found[f"{arm}, epoch"] = training.best_epoch
        found[f"{arm}, seconds"] = time.process_time() - begun
        if arm == "auto":
            found["start"] = "none" if built.start is None else built.start.kind
            found |= {one["name"]: one["test"]["pcc"] for one in simple(data, parts, built, setup)}
    return found


def simple(data: Dataset, parts: Any, built: Any, setup: Any) -> list[dict[str, Any]]:
    """The baselines of the same split."""
    return baselines(data, parts, built.preparation, setup.recipe).records({"test": parts.test})


def main() -> None:
    torch.set_num_threads(1)
    store, asked = Path(sys.argv[1]), sys.argv[2:] or ["kriging", "ft-transformer", "pool"]
    done = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    for seed in SEEDS:
        for model, name, make in cases(asked):
            key = {"model": model, "set": name, "seed": seed}
            if any(key.items() <= one.items() for one in done):
                continue
            done.append(key | run(model, make(), seed))
            with store.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    table(pd.DataFrame(done))


def table(done: pd.DataFrame) -> None:
    """Means over seeds, and what each is against ridge."""
    print("| model | set | ridge | LightGBM | none | auto | auto - ridge | starts from ridge | kept ridge |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (model, name), rows in done.groupby(["model", "set"], sort=False):
        arms = [rows[arm] if arm in rows else rows["auto"] for arm in ARMS]
        means = [float(one.mean()) for one in (rows["ridge"], rows["LightGBM"], *arms)]
        gap = float((rows["auto"] - rows["ridge"]).mean())
        ridges, kept = int((rows["start"] == "ridge").sum()), int((rows["auto, epoch"] < 0).sum())
        cells = " | ".join(f"{value:.3f}" for value in means)
        print(f"| {model} | {name} | {cells} | {gap:+.3f} | {ridges} of {len(rows)} | {kept} |")


if __name__ == "__main__":
    main()
