"""One small run of a tabular model on a UCI table: what the studies of the companion systems share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from excora.data.splits import Split
from excora.data.table import TableFeatures, TableSpec
from excora.models import Samples, models
from excora.settings import Settings
from excora.stats.correlation import pearson
from excora.training import train
from excora_studies.small_tables import load


def prepared(name: str, folder: Path, seed: int) -> tuple[TableSpec, TableFeatures, np.ndarray, Split]:
    """Rows and standardised labels by what the training part, 60 % drawn by ``seed``, shows of them."""
    numeric, codes, y = (part.to_numpy() for part in load(name, folder))
    order = np.random.default_rng(seed).permutation(len(y))
    cut = [int(0.6 * len(y)), int(0.8 * len(y))]
    split = Split(*np.split(order, cut))
    known = numeric[split.train]
    mean, std = np.nanmean(known, 0), np.nanstd(known, 0)
    x = (numeric - mean) / np.where(std > 0, std, 1.0)
    missing = np.isnan(x)
    seen = [set(codes[split.train, j]) for j in range(codes.shape[1])]
    codes = (
        np.stack([np.where(np.isin(c, [*s]), c, 0) for c, s in zip(codes.T, seen, strict=True)], 1) if seen else codes
    )
    sizes = tuple(int(c.max()) + 1 for c in codes.T)
    y = (y - y[split.train].mean()) / y[split.train].std()
    features = TableFeatures(np.where(missing, 0.0, x).astype(np.float32), missing, codes.astype(np.int64))
    spec = TableSpec(targets=1, numeric=x.shape[1], categories=sizes)
    return spec, features, y[:, None].astype(np.float32), split


def run(table: str, folder: Path, model: str, seed: int, **options: Any) -> dict[str, Any]:
    """Validation PCC by epoch, and the test PCC of the epoch that is best on validation."""
    spec, features, y, split = prepared(table, folder, seed)
    setup = Settings(model=model, seed=seed, accelerator="cpu", **options).settled("table", len(split.train))
    kind = models[model]
    network, found = kind.build(spec, Samples(features, y, split.train), setup.options, seed=seed)
    training = train(network, found, y, split, setup.recipe, setup.machine, progress=False)
    guess = training.network(found.read(split.test)).prediction.detach().double().numpy()
    curve = [row["validation_pcc"] for row in training.rows]
    return {"curve": curve, "test": float(pearson(guess, y[split.test].astype(float)).mean())}
