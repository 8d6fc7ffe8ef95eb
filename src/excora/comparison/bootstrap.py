"""Paired bootstrap of score differences between models, over samples (or groups, or time blocks) and over trainings.

For models a and b the difference is D = mean over seeds of d_s, d_s = score_s(a) - score_s(b), each score taken over
all samples of the seed. Two things make D random:

- the samples. Units (samples, groups, time blocks) are drawn with replacement, the same draw for every model and seed:
  D* varies as D would with other samples, those trainings given.
- the trainings. Each (seed, fold), a cell, is a training of its own, which shifts the difference on its samples by its
  own m_c (start of the network, training part), variance v; D has the mean of S F such shifts. By its influence
  on the score each sample contributes to its cell's mean, and the means differ by more than samples explain if v > 0:
  their covariance is C + v I, C known from the units. With few cells v is poorly known, and that has to widen the
  interval: v* solves sum_k z_k^2 / (lambda_k + v*) = chi^2_{SF-1}, a new draw each time (0 if there is no solution),
  where lambda are the eigenvalues of C among contrasts of cells and z the cell means along its eigenvectors.

One draw of the error is (D* - D) sqrt(U / chi^2_{U-1}) + sqrt(v* sum_c share_c^2) z, U units, z normal: Student's t in
place of the normal distribution in both parts, as few units and few cells ask for. The interval is D + its quantiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.diagnosis.intervals import UNITS, Array, correlations, unit_moments

RESAMPLES = 2000
LEVEL = 0.95
Codes = NDArray[np.intp]


class Draws(NamedTuple):
    """A score of every model by seed, the same in every resample, and how it comes about by cell and unit."""

    score: Array  #: (seeds, models)
    resampled: Array  #: (resamples, models), mean over seeds
    cell: Array  #: (cells, models): mean contribution of the samples of a (seed, fold)
    spread: Array  #: (units, cells, models): each unit's part in the error of the cell means
    share: Array  #: (cells,): part of a cell in the mean over seeds; the sum is 1
    units: float  #: how many units of one size they are worth


class Bounds(NamedTuple):
    """A difference and its interval."""

    difference: float
    low: float
    high: float

    @property
    def side(self) -> int:
        """1 above 0, -1 below, 0 if the interval contains 0."""
        return int(self.low > 0) - int(self.high < 0)


def sample_units(samples: int, *, group: Codes | None = None, time: Array | None = None) -> Codes:
    """The unit that each sample is resampled with, (samples,), numbered from 0.

    Groups whole; of time-ordered samples blocks of about sqrt(n) neighbours, for neighbours are alike; else each sample
    by itself, or random blocks of a data set of more than 2,000.

    >>> sample_units(9, time=np.arange(9.0)[::-1]).tolist()
    [2, 2, 2, 1, 1, 1, 0, 0, 0]
    """
    if group is not None:
        return np.unique(group, return_inverse=True)[1].astype(np.intp)
    if time is not None:
        blocks = max(int(np.sqrt(samples)), 1)
        rank = np.empty(samples, dtype=np.intp)
        rank[np.argsort(time, kind="stable")] = np.arange(samples)
        return rank * blocks // samples
    if samples <= UNITS:
        return np.arange(samples)
    return np.random.default_rng(0).permutation(samples) % UNITS


def draw(
    prediction: Array,
    target: Array,
    unit: Codes,
    fold: Codes,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Draws]:
    """Draws of "pcc" and "mse" for every model.

    Shapes: prediction (seeds, models, n, targets), target (n, targets), unit (n,), fold (seeds, n).
    Several targets: the mean over targets. An undefined correlation counts as 0, so that a collapsed model loses.
    """
    seeds, models, n, targets = prediction.shape
    units = int(unit.max()) + 1
    counts = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), resamples).astype(np.float64)
    size = counts @ np.bincount(unit, minlength=units)
    score, resampled = np.zeros((2, seeds, models)), np.zeros((2, resamples, models))
    contribution = np.zeros((2, seeds, models, n))
    for s, m, t in np.ndindex(seeds, models, targets):
        x, y = prediction[s, m, :, t], target[:, t]
        sums = unit_moments(x, y, unit, units)
        rho = float(correlations(sums.sum(0)))
        squares = (x - y) ** 2
        score[:, s, m] += np.nan_to_num(rho) / targets, squares.mean() / targets
        resampled[0, :, m] += np.nan_to_num(correlations(counts @ sums)) / (targets * seeds)
        resampled[1, :, m] += counts @ np.bincount(unit, squares, units) / size / (targets * seeds)
        contribution[0, s, m] += _influence(x, y, rho) / targets
        contribution[1, s, m] += squares / targets
    worth = effective_units(unit)
    return {
        name: Draws(score[k], resampled[k], *_cells(contribution[k], unit, fold), worth)
        for k, name in enumerate(("pcc", "mse"))
    }


def _influence(x: Array, y: Array, rho: float) -> Array:
    """What each sample adds to the correlation: rho + x y - rho (x^2 + y^2) / 2, x, y standardised; 0 if undefined."""
    if np.isnan(rho):
        return np.zeros_like(x)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return np.asarray(rho + x * y - rho * (x * x + y * y) / 2)


def effective_units(unit: Codes) -> float:
    """How many units of one size the units are worth: (sum n_u)^2 / sum n_u^2.

    >>> effective_units(np.array([0, 0, 1, 1, 2, 2]))
    3.0
    """
    sizes = np.bincount(unit).astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _cells(contribution: Array, unit: Codes, fold: Codes) -> tuple[Array, Array, Array]:
    """Means of the cells (cells, models), the units' parts in their errors (units, cells, models), and shares."""
    seeds, models, _ = contribution.shape
    units, folds = int(unit.max()) + 1, int(fold.max()) + 1
    means, parts, shares = [], [], []
    for s in range(seeds):
        place = unit * folds + fold[s]
        size = np.bincount(fold[s], minlength=folds).astype(np.float64)
        mean = np.stack([np.bincount(fold[s], c, folds) for c in contribution[s]], 1) / size[:, None]
        apart = contribution[s] - mean.T[:, fold[s]]
        part = np.stack([np.bincount(place, row, units * folds) for row in apart], 1).reshape(units, folds, models)
        # Deviations from a mean of few units are too small by this factor.
        held = np.bincount(np.unique(place) % folds, minlength=folds).astype(np.float64)
        parts.append(part * np.sqrt(held / np.maximum(held - 1, 1))[:, None] / size[:, None])
        means.append(mean)
        shares.append(size / size.sum() / seeds)
    return np.concatenate(means), np.concatenate(parts, 1), np.concatenate(shares)


def errors(draws: Draws, pairs: list[tuple[int, int]], *, seed: int = 0) -> tuple[Array, Array]:
    """Differences of the pairs (pairs,) and draws of their error, (resamples, pairs), by the formula above."""
    a, b = (list(side) for side in zip(*pairs, strict=True))
    difference = (draws.score[:, a] - draws.score[:, b]).mean(0)
    error = draws.resampled[:, a] - draws.resampled[:, b] - difference
    generator = np.random.default_rng(seed)
    if draws.units > 1:
        error *= np.sqrt(draws.units / generator.chisquare(draws.units - 1, len(error)))[:, None]
    cell, spread = draws.cell[:, a] - draws.cell[:, b], draws.spread[..., a] - draws.spread[..., b]
    return difference, error + _training_errors(cell, spread, draws.share, len(error), generator)


def _training_errors(cell: Array, spread: Array, share: Array, count: int, generator: np.random.Generator) -> Array:
    """Draws of the error that comes from having these trainings and no others: (count, pairs)."""
    cells, pairs = cell.shape
    chi = generator.chisquare(cells - 1, count)
    # One normal draw a cell, shared by the pairs: their errors go together as the cells' differences do.
    normal = generator.normal(size=(count, cells))
    contrast = np.linalg.svd(np.ones((1, cells)))[2][1:]  # (cells - 1, cells), orthogonal to 1
    found = np.empty((count, pairs))
    for p in range(pairs):
        known = spread[:, :, p] @ contrast.T
        values, vectors = np.linalg.eigh(known.T @ known)
        z = vectors.T @ (contrast @ cell[:, p])
        variance = _solve(z**2, np.maximum(values, 0.0), chi)
        apart = cell[:, p] - cell[:, p].mean()
        along = normal @ apart / max(np.linalg.norm(apart), np.finfo(np.float64).tiny)
        found[:, p] = np.sqrt(variance * (share**2).sum()) * along
    return found


def _solve(square: Array, known: Array, chi: Array) -> Array:
    """v >= 0 with sum_k square_k / (known_k + v) = chi, for each chi; 0 where that would be negative."""
    total = square.sum()
    if not total > 0:
        return np.zeros_like(chi)
    # The sum falls in v and is at most total / v: a fine grid below that, and straight lines between.
    grid = total / chi.min() * np.geomspace(1.0, 1e-12, 500)
    height = (square / (known + grid[:, None])).sum(1)
    return np.interp(chi, height, grid, right=0.0)


def pairwise(difference: Array, error: Array) -> list[Bounds]:
    """The 95 % interval of each pair by itself."""
    low, high = np.quantile(error, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [Bounds(*map(float, row)) for row in zip(difference, difference + low, difference + high, strict=True)]


def simultaneous(difference: Array, error: Array) -> list[Bounds]:
    """Intervals that hold for all pairs at once with 95 %: the pairwise ones, all stretched by one factor.

    The factor is the 95 % quantile of the largest error among the pairs in units of its half-width: errors that models
    share are used, and picking the best of many models is paid for.
    """
    low, high = np.quantile(error, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    width = (high - low) / 2
    largest = (np.abs(error) / np.where(width > 0, width, np.inf)).max(1)
    factor = max(float(np.quantile(largest, LEVEL)), 1.0)
    rows = zip(difference, difference + factor * low, difference + factor * high, strict=True)
    return [Bounds(*map(float, row)) for row in rows]
