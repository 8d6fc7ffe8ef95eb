"""The correlation as scikit-learn scores it: ``cross_val_score(model, X, y, scoring=excora.pearson_scorer)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from excora.errors import InputError
from excora.estimators import checks  # names the extra if scikit-learn is missing
from excora.stats.correlation import pearson, selection_mean

from sklearn.metrics import make_scorer  # isort: skip


def pearson_score(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """The Pearson correlation of labels and predictions, (n,) or (n, targets); of several targets the mean.

    >>> round(pearson_score([1.0, 2.0, 4.0], [1.0, 3.0, 4.0]), 4)
    0.9286

    An undefined correlation, of a constant or of fewer than 2 samples, counts as 0: a search must not pick it.
    """
    y, x = (np.asarray(part, np.float64) for part in (y_true, y_pred))
    if y.size == x.size:
        x = x.reshape(y.shape)  # (n, 1) against (n,)
    if y.shape != x.shape:
        raise InputError(f"labels and predictions must have one shape, got {y.shape} and {x.shape}")
    weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight is not None and weight.shape != y.shape[:1]:
        raise InputError(f"sample_weight must have the shape {y.shape[:1]}, got {weight.shape}")
    with checks.input_errors():
        return selection_mean(pearson(x, y, weight))


#: For ``scoring=`` of cross-validation and searches; higher is better.
pearson_scorer = make_scorer(pearson_score)
