"""What simple models reach on the split of a run: ridge, random trees, neighbours, and LightGBM where it is installed.

They read the matrix that peers read in a comparison: the columns of a table; of bags mean, spread, extremes and size.
The ridge is closed form, its penalty by exact leave-one-out on the training part; LightGBM stops early by validation,
which also picks the trees (a small forest) and the number of neighbours. Four kinds of models, as each finds what the
others miss: where none is ahead, that says more than where one is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from excora.data.dataset import Dataset, Index
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.errors import MissingExtraError
from excora.peers.base import Part, Peer, Predict, peers
from excora.peers.tuning import tuned
from excora.settings import Recipe
from excora.stats.correlation import Array
from excora.stats.ridge import standardised_ridge
from excora.stats.scores import Measure, criterion, score

#: Numbers of the training matrix times targets up to which LightGBM is quick enough to wait for.
MOST_CELLS = 30_000_000
#: CPU seconds after which no further setting of LightGBM is tried; half as many for the others.
SECONDS = 2.0
#: A ridge is fitted to at most so many samples, and a matrix of more columns and rows takes too long to decompose.
MOST_ROWS, MOST_COLUMNS = 20_000, 3000
#: Random trees learn from at most so many numbers of the matrix, times targets: further rows are left out, evenly.
TREE_CELLS = 500_000
#: The quickest first: those of all candidates that there is time for.
FORESTS = tuple({"n_estimators": 100, "max_features": share, "min_samples_leaf": held}
                for share, held in ((0.33, 3), (1.0, 1), (0.33, 1), (1.0, 3)))  # fmt: skip
#: Training rows times validation rows times columns up to which neighbours are looked up.
NEAR_CELLS = 3_000_000_000


@dataclass(frozen=True)
class Baselines:
    """Fitted simple models of one split; a part is predicted when it is asked for."""

    dataset: Dataset
    preparation: Preparation
    matrix: Array
    fitted: dict[str, Predict]
    notes: list[str] = field(default_factory=list)  #: who is left out, and why

    def scores(self, name: str, index: Index) -> dict[str, float]:
        """PCC and MSE on the scale of the labels, means over targets; NaN where undefined."""
        assert self.dataset.target is not None
        prediction = self.preparation.unscale(self.fitted[name](self.matrix[index]))
        found = score(prediction, self.dataset.target[index])
        return {"pcc": found.pcc, "mse": found.mse}

    def records(self, parts: Mapping[str, Index]) -> list[dict[str, Any]]:
        """For results.json: a dictionary a model, with its ``name`` and its scores on each of these parts."""
        looked = {part: index for part, index in parts.items() if len(index)}
        return [
            {"name": name, **{part: self.scores(name, index) for part, index in looked.items()}} for name in self.fitted
        ]


def baselines(dataset: Dataset, split: Split, preparation: Preparation, recipe: Recipe) -> Baselines:
    """Fit them to ``split.train``; ``split.test`` is not read.

    >>> import pandas as pd
    >>> from excora.data.table import Table
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> data = Dataset(np.arange(60).astype(str).astype(object), ("y",), x @ [[2.0], [1.0]], Table(pd.DataFrame(x)))
    >>> parts = Split(np.arange(40), np.arange(40, 50), np.arange(50, 60))
    >>> found = baselines(data, parts, Preparation.fit(data, parts.train), Recipe())
    >>> round(found.records({"validation": parts.validation})[0]["validation"]["pcc"], 3)
    1.0
    """
    assert dataset.target is not None
    matrix, y = preparation.matrix(dataset), preparation.scale(dataset.target).astype(np.float64)

    def part(index: Index) -> Part:
        return Part(matrix[index], y[index], None if dataset.weight is None else dataset.weight[index])

    found = Baselines(dataset, preparation, matrix, {})
    train, validation = part(split.train), part(split.validation)
    if min(*train.x.shape, MOST_ROWS) > MOST_COLUMNS:
        found.notes.append(f"ridge is left out: {train.x.shape[1]} columns of {len(train.x)} samples take too long")
    else:
        found.fitted["ridge"] = closed_ridge(train, None if dataset.group is None else dataset.group[split.train])
    if not len(validation.y):
        found.notes.append("LightGBM, ExtraTrees and neighbours are left out: without a validation part none is tuned")
        return found
    measure = criterion(recipe.criterion, recipe.correlation_weight)
    for name, (peer, slow) in _others(train, validation).items():
        try:
            peer.check()
        except MissingExtraError as error:
            found.notes.append(f"{name} is left out: {error}")
            continue
        if slow:
            found.notes.append(f"{name} is left out: it would take long here; excora compare takes its time")
            continue
        found.fitted[name] = quick(name, train, validation, measure, seed=recipe.seed)
    return found


def _others(train: Part, validation: Part) -> dict[str, tuple[Peer, bool]]:
    """The peers beside ridge by the name they go by, and whether each would take long."""
    cells, targets = train.x.size, train.y.shape[1]
    return {
        "LightGBM": (peers["lightgbm"], cells * targets > MOST_CELLS),
        "ExtraTrees": (peers["extratrees"], cells * targets > MOST_CELLS),
        "neighbours": (peers["neighbours"], cells * len(validation.x) > NEAR_CELLS),
    }


def quick(name: str, train: Part, validation: Part, measure: Measure, *, seed: int = 0) -> Predict:
    """LightGBM, ExtraTrees or neighbours, tuned on validation in a second or two."""
    candidates = FORESTS if name == "ExtraTrees" else None
    if name == "ExtraTrees":
        step = max(-(-train.x.size * train.y.shape[1] // TREE_CELLS), 1)
        weight = None if train.weight is None else train.weight[::step]
        train = Part(train.x[::step], train.y[::step], weight)
    given: dict[str, Any] = {"seed": seed, "seconds": SECONDS if name == "LightGBM" else SECONDS / 2}
    return tuned(peers[name.lower()], train, validation, measure, candidates=candidates, **given).predict


def closed_ridge(train: Part, group: Any = None) -> Predict:
    """By exact leave-one-out, or by whole groups; of samples that count, at most :data:`MOST_ROWS`, evenly spread."""
    rows = np.arange(len(train.x)) if train.weight is None else np.flatnonzero(train.weight)
    rows = rows[:: max(-(-len(rows) // MOST_ROWS), 1)]
    weight, apart = (None if part is None else part[rows] for part in (train.weight, group))
    return standardised_ridge(train.x[rows], train.y[rows], weight, apart).line.predict
