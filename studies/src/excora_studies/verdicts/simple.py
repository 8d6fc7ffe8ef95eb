"""What simple models reach on a split: those that ``fit`` shows a verdict, and others that are held back.

A verdict sees ridge, LightGBM, ExtraTrees and neighbours, fitted as ``fit`` fits them. A random forest and support
vectors of a Gaussian kernel, tuned on validation, are there to contradict it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.svm import SVR

from excora.peers import Part
from excora.peers.baselines import closed_ridge, quick
from excora.stats.correlation import pearson
from excora.stats.scores import criterion
from excora_studies.verdicts.sets import Floats, Samples

GIVEN, HELD_BACK = ("ridge", "LightGBM", "ExtraTrees", "neighbours"), ("random forest", "support vectors")
Predict = Callable[[Floats], Floats]


class Simple(NamedTuple):
    """What simple models reach: those that a verdict is given on validation, and all on test."""

    validation: dict[str, float]
    test: dict[str, float]

    @property
    def given(self) -> list[dict[str, Any]]:
        """As a verdict takes them."""
        parts = self._asdict().items()
        return [{"name": name, **{part: {"pcc": scores[name]} for part, scores in parts}} for name in GIVEN]

    @property
    def best(self) -> float:
        """Of the given ones, on the test part."""
        return max(self.test[name] for name in GIVEN)


def simple(samples: Samples, parts: tuple[Any, ...], names: tuple[str, ...] = (*GIVEN, *HELD_BACK)) -> Simple:
    """PCC of each on validation and test; 0 where it is undefined."""
    x, y = samples.summary, samples.target[:, None]
    train, held, test = (Part(x[rows], y[rows]) for rows in parts)
    found = Simple({}, {})
    for name in names:
        predict = _fitted(name, train, held)
        for part, scores in zip((held, test), found, strict=True):
            scores[name] = float(np.nan_to_num(pearson(predict(part.x), part.y)[0]))
    return found


def _fitted(name: str, train: Part, held: Part) -> Predict:
    if name == "ridge":
        return closed_ridge(train)
    if name in GIVEN:
        return quick(name, train, held, criterion("joint"))
    mean, scale = train.x.mean(0), np.maximum(train.x.std(0), 1e-9)
    known = (train.x - mean) / scale
    tried: list[tuple[float, Predict]] = []
    for model in _engines(name, known.shape[1]):
        model.fit(known, train.y[:, 0])

        def predict(x: Floats, model: Any = model) -> Floats:
            return np.asarray(model.predict((x - mean) / scale), float)[:, None]

        tried.append((criterion("joint")(predict(held.x), held.y, None), predict))
    return min(tried, key=lambda one: one[0])[1]


def _engines(name: str, columns: int) -> Iterator[Any]:
    if name == "random forest":
        for share in (1.0, 0.33):
            yield RandomForestRegressor(100, max_features=share, random_state=0)
        return
    for cost in (0.3, 1.0, 10.0):
        for width in (0.3, 1.0):
            yield SVR(C=cost, gamma=width / columns)
