"""How far labels lie from predictions, in units of the spread that a model expects: what its intervals reach.

Learned from rows that were left out, by their weights: a row whose label counts little says little of an interval.
Tensors are (n, targets), NaN where a label is unknown; weights are (n,).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

#: Shares of labels between which the reach of an interval is interpolated.
LEVELS = 201


def mean_of(values: Tensor, weight: Tensor) -> Tensor:
    """(targets,) sum_i w_i x_i / sum_i w_i over known values; NaN where there are none.

    >>> mean_of(torch.tensor([[1.0], [4.0], [torch.nan]]), torch.tensor([2.0, 1.0, 5.0]))
    tensor([2.])
    """
    heavy = weight.unsqueeze(1) * ~values.isnan()
    return (heavy * values.nan_to_num()).sum(0) / heavy.sum(0)


def unit_of(wrong: Tensor, variance: Tensor, weight: Tensor) -> Tensor:
    """(targets,) what a variance is to be multiplied by to be that of errors: the mean of e^2 / variance."""
    return mean_of(wrong.square() / variance, weight).nan_to_num(1.0).clamp_min(1e-12)


def reaches(scaled: Tensor, weight: Tensor) -> Tensor:
    """Quantiles (levels, targets) of errors in units of their spread.

    Those of n errors and one more that is to come, n = (sum w)^2 / sum w^2; of a normal error where there are none.
    With C_i the sum of the first i of the ordered weights, the i-th error is the quantile
    (C_i - w_i / 2 - w_1 / 2) / (C_n - w_n / 2 - w_1 / 2), with equal weights (i - 1) / (n - 1).
    """
    levels = torch.linspace(0.0, 1.0, LEVELS, dtype=torch.float64)
    found = torch.special.ndtri((0.5 + 0.5 * levels).clamp_max(0.9999)).unsqueeze(1).repeat(1, scaled.shape[1])
    for target, column in enumerate(scaled.double().T):
        known, w = column[~column.isnan()], weight[~column.isnan()].double()
        if not len(known):
            continue
        known, order = known.sort()
        place = w[order].cumsum(0) - w[order] / 2
        place = (place - place[0]) / (place[-1] - place[0]).clamp_min(1e-300)
        count = float(w.sum().square() / w.square().sum())
        asked = (levels * (1 + 1 / count)).clamp_max(1.0)
        found[:, target] = torch.from_numpy(np.interp(asked.numpy(), place.numpy(), known.numpy()))
    return found.float()


def reaches_of_mean(missed: Tensor, own: Tensor, spread: Tensor, weight: Tensor) -> Tensor:
    """The reach about a mean of members that see all rows, not about one that sees four fifths.

    ``missed`` (n, members, targets): what each member misses a row by from all other rows, e_m; e is the mean of them
    and a their variance, e^2 = mean_m e_m^2 - a. But only one of them, number ``own`` (n,), has not learned of the row,
    and the others flatter e: its size is that of its own member's e_m^2 - a on average, and no less than it is.
    """
    one, mean = missed[torch.arange(len(own)), own], missed.mean(1)
    honest = mean_of(one.square() - missed.var(1, correction=0), weight)
    size = (honest / mean_of(mean.square(), weight).clamp_min(1e-12)).nan_to_num(1.0).clamp_min(1.0).sqrt()
    return reaches(size * mean.abs() / spread, weight)
