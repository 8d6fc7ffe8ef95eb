"""Rows of a table as channels of one scale, and the ridge that is the start of what is learned from neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from excora.data.scaling import normal_scores
from excora.data.table import TableSpec
from excora.stats.ridge import left_out_ridge

#: Standardised numbers end here: one wild cell must not decide which rows are near.
REACH = 4.0
#: Quantiles of a column that ranks are taken by, at most.
MOST_KNOTS = 1000
#: Places where the line of a column may bend: quantiles of a normal score at equal steps.
BENDS = 9
#: Rows from which bends are tried, and the most columns and cells of the matrix that they make.
BENT_FROM, MOST_COLUMNS, MOST_CELLS = 2000, 1500, 40_000_000


def knots_of(numeric: Tensor, missing: Tensor) -> Tensor:
    """Quantiles of each column (n, columns) where it is not missing, at equal steps: (knots, columns)."""
    steps = np.linspace(0.0, 1.0, min(max(len(numeric), 2), MOST_KNOTS))
    columns = [x[~gap] for x, gap in zip(numeric.numpy().T, missing.numpy().T, strict=True)]
    found = [np.quantile(x, steps) if len(x) else np.zeros(len(steps)) for x in columns]
    return torch.from_numpy(np.array(found, np.float32).reshape(len(columns), len(steps)).T.copy())


def width_of(spec: TableSpec, gaps: Sequence[int]) -> int:
    """The number of :func:`channels`."""
    return 2 * spec.numeric + len(gaps) + sum(n - 1 for n in spec.categories)


def channels(rows: Mapping[str, Any], knots: Tensor, spec: TableSpec, gaps: Sequence[int]) -> Tensor:
    """[z / sqrt 2, q / sqrt 2, flags, categories] of rows, (n, channels), in float32.

    z: standardised numbers up to +-:data:`REACH`; q: normal scores of their ranks among training rows, by ``knots``;
    both are 0 where a number is missing, which the flags of the columns ``gaps`` say. Categories are one-hot; one that
    training has not seen is all 0.

    >>> spec = TableSpec(targets=1, numeric=1)
    >>> rows = {"numeric": torch.tensor([[9.0]]), "missing": torch.tensor([[False]]), "codes": torch.zeros(1, 0).long()}
    >>> channels(rows, torch.tensor([[-1.0], [0.0], [1.0]]), spec, []) * math.sqrt(2)
    tensor([[4.0000, 0.9674]])
    """
    numbers, missing = rows["numeric"].float(), rows["missing"]
    last = float(torch.special.ndtri(torch.tensor(1 - 0.5 / len(knots))))
    columns = zip(numbers.numpy().T, knots.float().numpy().T, strict=True)
    ranked = [normal_scores(x.astype(np.float64), known.astype(np.float64)) for x, known in columns]
    q = torch.from_numpy(np.array(ranked, np.float32).reshape(spec.numeric, len(numbers)).T.copy()).clamp(-last, last)
    both = torch.cat([numbers.clamp(-REACH, REACH), q], 1).masked_fill(missing.repeat(1, 2), 0.0) / math.sqrt(2)
    flags = missing[:, list(gaps)].to(both.dtype)
    hot = [F.one_hot(rows["codes"][:, j], n)[:, 1:].to(both.dtype) for j, n in enumerate(spec.categories)]
    return torch.cat([both, flags, *hot], 1)


def bent(x: Tensor, numeric: int, bends: int = BENDS) -> Tensor:
    """Channels ``x``, and for each number max(q - t, 0) with its normal score q, at ``bends`` quantiles t of a normal.

    A line on them is a sum of curves, one a column. Without bends it is ``x``.

    >>> bent(torch.tensor([[0.0, 1.0]]) / math.sqrt(2), 1, bends=1)
    tensor([[0.0000, 0.7071, 1.0000]])
    """
    q = x[:, numeric : 2 * numeric] * math.sqrt(2)
    places = torch.special.ndtri(torch.linspace(0.0, 1.0, bends + 2, dtype=torch.float64)[1:-1]).tolist()
    return torch.cat([x, *((q - t).clamp_min(0.0) for t in places)], 1)


class RidgeStart(NamedTuple):
    """f(x) = x coefficient + intercept on channels, with bends or without, and what it leaves of the labels."""

    coefficient: Tensor  #: (channels, targets)
    intercept: Tensor  #: (targets,)
    residual: Tensor  #: (n, targets): y - f(x), f fitted without the row, or its group; NaN where y is

    @property
    def direction(self) -> Tensor:
        """(channels,): along which the prediction of all targets changes most, and how fast."""
        left, values, _ = torch.linalg.svd(self.coefficient, full_matrices=False)
        return left[:, 0] * values[0]


class Learned(NamedTuple):
    """What a start is fitted to, but for the channels."""

    y: NDArray[np.float32]  #: (n, targets), NaN where a label is unknown
    weight: NDArray[Any] | None = None  #: (n,)
    group: NDArray[Any] | None = None  #: (n,): rows of one are left out together

    def take(self, rows: NDArray[np.intp]) -> Learned:
        """Of some rows."""
        return Learned(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]


def ridge_start(x: Tensor, numeric: int, rows: Learned) -> RidgeStart:
    """The ridge on the channels ``x`` (n, channels) without the ranks of their ``numeric`` numbers."""
    scale = torch.ones(x.shape[1], dtype=torch.float64)
    scale[:numeric], scale[numeric : 2 * numeric] = math.sqrt(2), 0.0  # a penalty is one of standardised columns
    return _start(x, scale, rows)


def bent_start(x: Tensor, numeric: int, rows: Learned) -> RidgeStart | None:
    """The ridge on ranks and bends too: a curve a column. None where rows are few or columns many.

    Of a table with too many cells rows at equal steps are fitted to; the others are left out as they are.
    """
    columns = x.shape[1] + BENDS * numeric
    if not numeric or len(x) < BENT_FROM or columns > MOST_COLUMNS:
        return None
    some = np.linspace(0, len(x) - 1, min(len(x), MOST_CELLS // columns)).astype(np.intp)
    scale = torch.ones(columns, dtype=torch.float64)
    scale[: 2 * numeric] = math.sqrt(2)
    found = _start(bent(x[some], numeric), scale, rows.take(some))
    if len(some) == len(x):
        return found
    parts = [bent(part, numeric) @ found.coefficient for part in x.split(8192)]
    residual = torch.from_numpy(rows.y) - torch.cat(parts) - found.intercept
    residual[torch.from_numpy(some)] = found.residual
    return found._replace(residual=residual)


def mean_start(x: Tensor, rows: Learned) -> RidgeStart:
    """The weighted mean of known labels: a line that is level, which trees that take it all upon themselves start from.

    Without rows of the share p of all weights, which have p m of the mean, the mean is (mean - p m) / (1 - p).
    """
    y, known = np.nan_to_num(rows.y.astype(np.float64)), np.isfinite(rows.y)
    part = known * (np.ones(len(y)) if rows.weight is None else rows.weight)[:, None]
    part = part / np.maximum(part.sum(0), np.finfo(np.float64).tiny)
    mean, own, there = (part * y).sum(0), part * y, part
    if rows.group is not None:
        unit = np.unique(rows.group, return_inverse=True)[1]
        own, there = (_summed(values, unit) for values in (own, part))
    others = np.where(there < 1.0, (mean - own) / np.where(there < 1.0, 1.0 - there, 1.0), mean)
    level, residual = torch.from_numpy(mean).float(), torch.from_numpy(np.where(known, y - others, np.nan)).float()
    return RidgeStart(torch.zeros(x.shape[1], y.shape[1]), level, residual)


def _summed(values: NDArray[np.float64], unit: NDArray[np.intp]) -> NDArray[np.float64]:
    """For each row the sum of its unit's, of (n, targets)."""
    return np.stack([np.bincount(unit, column)[unit] for column in values.T], 1)


def _start(x: Tensor, scale: Tensor, rows: Learned) -> RidgeStart:
    """The ridge on x scale, where scale is not 0."""
    used = scale > 0
    read = (x.double() * scale)[:, used].numpy()
    weight = None if rows.weight is None else rows.weight.astype(np.float64)
    fit = left_out_ridge(read, rows.y.astype(np.float64), weight, group=rows.group)
    coefficient = torch.zeros(x.shape[1], rows.y.shape[1], dtype=torch.float64)
    coefficient[used] = torch.from_numpy(fit.line.coefficient) * scale[used].unsqueeze(1)
    residual = torch.from_numpy(rows.y - fit.left_out)
    return RidgeStart(coefficient.float(), torch.from_numpy(fit.line.intercept).float(), residual.float())
