"""MMSA's MetricsTop for MOSI, written from its description with scikit-learn: the oracle of the sentiment scores."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.metrics import accuracy_score, f1_score


def mosi(p: np.ndarray, y: np.ndarray) -> list[float]:
    """Has0, Non0, Acc-5, Acc-7, MAE, Corr, as the reference has them, before it rounds."""

    def multiclass(low: float, high: float) -> float:
        a, b = np.clip(p, low, high), np.clip(y, low, high)
        return np.sum(np.round(a) == np.round(b)) / float(len(b))

    nonzero = np.array([i for i, e in enumerate(y) if e != 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        has0 = [accuracy_score(y >= 0, p >= 0), f1_score(y >= 0, p >= 0, average="weighted")]
        non0 = [
            accuracy_score(y[nonzero] > 0, p[nonzero] > 0),
            f1_score(y[nonzero] > 0, p[nonzero] > 0, average="weighted"),
        ]
    return [*has0, *non0, multiclass(-2, 2), multiclass(-3, 3), np.mean(np.absolute(p - y)), np.corrcoef(p, y)[0][1]]
