"""Scores of predictions, and the criterion by which every model is picked on the validation part."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from excora.errors import InputError
from excora.stats.correlation import Array, mean_over_targets, pearson, selection_mean

#: Of predictions (n, targets), labels and weights (n,) or None: lower is better.
Measure = Callable[[Array, Array, Array | None], float]


class Scores(NamedTuple):
    """Means over targets; pcc over those that have one, NaN if none has."""

    pcc: float
    mse: float
    mae: float


def score(prediction: Array, target: Array) -> Scores:
    """PCC, MSE and MAE of predictions (n, targets), by target over its known labels; every sample counts once.

    >>> score(np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]]))
    Scores(pcc=1.0, mse=4.666666666666667, mae=2.0)

    A constant prediction or target leaves the PCC of that target undefined. No label at all leaves everything NaN.
    """
    error = prediction - target
    pcc = float(mean_over_targets(pearson(prediction, target)))
    return Scores(pcc, mean_by_target(error**2, target, None), mean_by_target(np.abs(error), target, None))


def squared_error(prediction: Array, target: Array, weight: Array | None = None) -> float:
    """sum_i w_i (yhat_i - y_i)^2 / sum_i w_i over the known labels of a target, mean over targets that have any.

    >>> squared_error(np.array([1.0, 2.0]), np.array([2.0, np.nan]))
    1.0
    """
    return mean_by_target((prediction - target) ** 2, target, weight)


def mean_by_target(values: Array, target: Array, weight: Array | None) -> float:
    """The mean of ``values`` (n, targets) over the known labels, by target, then over targets that have any."""
    if weight is None and not np.isnan(target).any():
        return float(np.mean(values)) if values.size else float("nan")
    values, known = (part.reshape(len(part), -1) for part in (values, ~np.isnan(target)))
    w = known * (1.0 if weight is None else weight[:, None])
    total = w.sum(0)
    there = total > 0
    if not there.any():
        return float("nan")
    return float((np.where(w > 0, w * values, 0.0).sum(0)[there] / total[there]).mean())


def criterion(kind: str = "joint", correlation_weight: float = 1.0) -> Measure:
    """What models are picked by on standardised targets: "mse", "pcc" (-PCC) or "joint", MSE + weight (1 - PCC).

    An undefined PCC counts as 0.

    >>> measure = criterion("joint", 0.5)
    >>> measure(np.array([[0.0], [2.0]]), np.array([[0.0], [1.0]]), None)
    0.5
    """
    if kind not in ("mse", "pcc", "joint"):
        raise InputError(f"the criterion must be mse, pcc or joint, got {kind!r}")

    def measure(prediction: Array, target: Array, weight: Array | None) -> float:
        pcc = 0.0 if kind == "mse" else selection_mean(pearson(prediction, target, weight))
        if kind == "pcc":
            return -pcc
        mse = squared_error(prediction, target, weight)
        return mse if kind == "mse" else mse + correlation_weight * (1.0 - pcc)

    return measure
