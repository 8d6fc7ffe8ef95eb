"""The probe: what a linear read-out of the bags could reach, out of fold. It tells unread signal from noise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from excora.monitor.hull import Columns
from excora.theory.plateau import Batch, measure

FOLDS = 5
WIDTH = 128  # wider embeddings are projected: the cost of a fold grows with the cube of the width
EDGES = 16  # targets whose extreme elements take part
RIDGES = (1e-6, 1e-3, 1e-1, 10.0)


def probe_correlation(table: Columns) -> dict[str, float | int | None]:
    """PCC of the best linear read-out of each bag, and what it has over the prediction, mean over targets.

    Ridge regression of the target on (yhat_s, mu_s, v_s, lowest_s, highest_s), ridge by the out-of-fold error, all
    figures out of fold: so it does not reward noise that could be memorised. ``probe_gain`` near 0 says that a linear
    read-out finds nothing which the model does not use; it cannot see signal that needs a non-linear one.
    ``probe_error``: the standard error of the gain, both being of the same bags. None for fewer than 40 bags.

    >>> x = torch.randn(200, 1)
    >>> y = x + 2 * torch.randn(200, 1)
    >>> full = {"prediction": x, "target": y, "known": torch.ones(200, 1), "mean": x, "value": y}
    >>> round(probe_correlation({k: v.double() for k, v in full.items()})["probe_pcc"], 3)
    1.0
    """
    features = _features(table)
    gains, tops, errors = [], [], []
    for t in range(table["target"].shape[1]):
        rows = table["known"][:, t] > 0
        if int(rows.sum()) < 8 * FOLDS:
            continue
        y = table["target"][rows, t]
        now = measure(table["prediction"][rows, t], y, None, None)
        fitted = measure(_out_of_fold(features[rows], y), y, None, None)
        if bool(fitted.defined):
            tops.append(float(fitted.pcc))
            gains.append(float(fitted.pcc) - (float(now.pcc) if bool(now.defined) else 0.0))
            apart = _influence(fitted) - _influence(now)
            errors.append(float(apart.std()) / math.sqrt(len(y)))
    if not tops:
        return {"probe_pcc": None, "probe_gain": None, "probe_error": None}
    # Targets share their bags: the error of a mean is no larger than the mean of the errors.
    found = {"probe_pcc": tops, "probe_gain": gains, "probe_error": errors}
    return {name: sum(values) / len(values) for name, values in found.items()}


def _influence(batch: Batch) -> Tensor:
    """What each bag adds to a correlation: x y - rho (x^2 + y^2) / 2, x and y standardised; 0 where undefined."""
    x, y = batch.prediction.flatten(), batch.target.flatten()
    return x * y - batch.pcc * (x.square() + y.square()) / 2


def _features(table: Columns) -> Tensor:
    """Standardised columns; constant ones are zero."""
    edges = [table[name][:, :EDGES] for name in ("lowest", "highest") if name in table]
    x = torch.cat([table["prediction"][:, :EDGES], _narrow(table["mean"]), _narrow(table["value"]), *edges], 1)
    centred = x - x.mean(0)
    std = centred.square().mean(0).sqrt()
    varies = std > 1e-12 * x.abs().amax(0)
    return torch.where(varies, centred / torch.where(varies, std, 1.0), 0.0)


def _narrow(x: Tensor) -> Tensor:
    """At most WIDTH columns, by a projection that is the same every time."""
    if x.shape[1] <= WIDTH:
        return x
    generator = torch.Generator().manual_seed(0)
    return x @ torch.randn(x.shape[1], WIDTH, generator=generator, dtype=x.dtype)


def _out_of_fold(x: Tensor, y: Tensor) -> Tensor:
    """Ridge predictions, each row from the other folds; rows are dealt to the folds in turn."""
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    grams = torch.stack([x[k::FOLDS].T @ x[k::FOLDS] for k in range(FOLDS)])
    sides = torch.stack([x[k::FOLDS].T @ y[k::FOLDS] for k in range(FOLDS)])
    values, basis = torch.linalg.eigh(grams.sum(0) - grams)
    turned = (basis.mT @ (sides.sum(0) - sides).unsqueeze(-1)).squeeze(-1)
    ridges = len(x) * torch.tensor(RIDGES, dtype=x.dtype)[:, None, None]
    weights = basis @ (turned / (values.clamp_min(0.0) + ridges)).unsqueeze(-1)  # (ridges, folds, features, 1)
    fitted = x.new_empty(len(RIDGES), len(x))
    for k in range(FOLDS):
        fitted[:, k::FOLDS] = (x[k::FOLDS] @ weights[:, k]).squeeze(-1)
    return fitted[(fitted - y).square().mean(1).argmin()]
