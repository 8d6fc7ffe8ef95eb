"""Scores of predictions, and the criterion by which every model is picked on the validation part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from excora.moments import moments
from excora.samples import columns
from excora.settings import Settings

Array = NDArray[np.float64]


class Scores(NamedTuple):
    """Means over targets; pcc over those that have one, NaN if none has."""

    pcc: float
    mse: float
    mae: float


def score(prediction: Array, target: Array) -> Scores:
    """PCC, MSE and MAE of predictions (n, targets); every sample counts once, as in a run's results.

    >>> score(np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]]))
    Scores(pcc=1.0, mse=4.666666666666667, mae=2.0)

    A constant prediction or target leaves the PCC of that target undefined.
    """
    rho = _pearson(prediction, target, None)
    error = prediction - target
    known = rho[~np.isnan(rho)]
    pcc = float(known.mean()) if len(known) else float("nan")
    return Scores(pcc, float(np.mean(error**2)), float(np.abs(error).mean()))


def criterion(prediction: Array, target: Array, weight: Array | None, settings: Settings) -> float:
    """What networks are picked by as well (lower is better), on standardised targets; undefined PCC counts as 0."""
    pcc = float(np.nan_to_num(_pearson(prediction, target, weight)).mean())
    if settings.criterion == "pcc":
        return -pcc
    mse = float(np.average((prediction - target) ** 2, axis=0, weights=weight).mean())
    return mse if settings.criterion == "mse" else mse + settings.correlation_weight * (1.0 - pcc)


def _pearson(prediction: Array, target: Array, weight: Array | None) -> Array:
    """(targets,), NaN where undefined."""
    x, y = (torch.from_numpy(np.ascontiguousarray(part, np.float64)) for part in (prediction, target))
    w = None if weight is None else torch.from_numpy(np.asarray(weight, np.float64))
    found = moments(*columns(x, y, None, w))
    return found.pearson.clamp(-1.0, 1.0).where(found.defined, torch.nan).numpy()
