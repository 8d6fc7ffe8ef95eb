"""The eight figures by which sentiment in [-3, 3] is judged, as MMSA computes them (it then rounds to four digits).

MAE         mean |yhat - y|                     Corr   Pearson correlation
Acc-7       share of round(clip(yhat, -3, 3)) = round(clip(y, -3, 3)), halves to the even number; Acc-5: with 2
Has0        classes yhat >= 0 and y >= 0, of all samples
Non0        classes yhat > 0 and y > 0, of the samples with y != 0
Acc-2, F1   of these two classes; F1 = sum over the classes c of (samples of c / samples) F1_c
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from excora.errors import InputError
from excora.stats.correlation import pearson


class SentimentScores(NamedTuple):
    """In the order of the published tables; NaN where undefined."""

    acc2_has0: float
    f1_has0: float
    acc2_non0: float
    f1_non0: float
    acc5: float
    acc7: float
    mae: float
    pcc: float

    def named(self) -> dict[str, float]:
        """By the names of the tables."""
        return dict(zip(NAMES, self, strict=True))


#: The figures as tables call them.
NAMES = ("Acc-2 Has0", "F1 Has0", "Acc-2 Non0", "F1 Non0", "Acc-5", "Acc-7", "MAE", "PCC")


def sentiment_scores(prediction: ArrayLike, target: ArrayLike) -> SentimentScores:
    """Of predictions and labels (n,); samples without a label (NaN) do not count.

    >>> found = sentiment_scores([0.4, -1.2, 2.6, 0.1], [1.0, -1.0, 3.0, 0.0])
    >>> found.acc7, found.acc2_has0, found.f1_non0, round(found.mae, 3)
    (0.75, 1.0, 1.0, 0.325)

    Without a sample that a figure is taken over it is NaN, and so is the correlation of a constant.
    """
    p, y = (np.asarray(x, np.float64).reshape(-1) for x in (prediction, target))
    if p.shape != y.shape:
        raise InputError(f"predictions and labels must be as many, got {len(p)} and {len(y)}")
    known = ~np.isnan(y)
    p, y = p[known], y[known]
    if not len(y):
        return SentimentScores(*[float("nan")] * len(NAMES))
    other = y != 0
    return SentimentScores(
        *_two_classes(p >= 0, y >= 0),
        *_two_classes(p[other] > 0, y[other] > 0),
        _accuracy(p, y, 2.0),
        _accuracy(p, y, 3.0),
        float(np.abs(p - y).mean()),
        float(pearson(p[:, None], y[:, None])[0]),
    )


def _accuracy(p: NDArray[np.float64], y: NDArray[np.float64], most: float) -> float:
    """Share of equal whole numbers after a clip to [-most, most]."""
    return float((np.round(np.clip(p, -most, most)) == np.round(np.clip(y, -most, most))).mean())


def _two_classes(p: NDArray[np.bool_], y: NDArray[np.bool_]) -> tuple[float, float]:
    """Accuracy and weighted F1, F1_c = 2 TP / (2 TP + FP + FN), 0 for a class without any of these."""
    if not len(y):
        return float("nan"), float("nan")
    f1 = 0.0
    for mine in (True, False):
        hits, wrong = int(((p == mine) & (y == mine)).sum()), int((p != y).sum())
        f1 += float((y == mine).mean()) * (2 * hits / (2 * hits + wrong) if hits else 0.0)
    return float((p == y).mean()), f1
