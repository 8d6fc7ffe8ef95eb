"""Paired bootstrap of score differences between models, over samples (or groups, or time blocks) and over trainings.

For models a and b the difference is D = mean over seeds of d_s, d_s = score_s(a) - score_s(b), each score taken over
all samples that the seed has tested: all of them by cross-validation, or a test part of its own. Two things make D
random:

- the samples. Units (samples, groups, time blocks) are drawn with replacement, the same draw for every model and seed:
  D* varies as D would with other samples, those trainings given.
- the trainings. Each (seed, fold), a cell, is a training of its own, which shifts the difference on its samples by its
  own m_c (start of the network, training part), variance v; D has the mean of all such shifts. By its influence
  on the score each sample contributes to its cell's mean, and the means differ by more than samples explain if v > 0:
  their covariance is C + v I, C known from the units. With few cells v is poorly known, and that has to widen the
  interval: v* solves sum_k z_k^2 / (lambda_k + v*) = chi^2_{cells-1}, a new draw each time (0 if there is no solution),
  where lambda are the eigenvalues of C among contrasts of cells and z the cell means along its eigenvectors.

One draw of the error is (D* - D) sqrt(d U / chi^2_{U-1}) + sqrt(v* sum_c share_c^2) z, U units, z normal: Student's t
in place of the normal distribution in both parts, as few units and few cells ask for; every pair has chi^2 of its own,
which go together as far as pairs share a model. The interval is D + its quantiles.

The units also trained the models, and all folds share most of them: a model that happened to suit these samples is
better in every cell, which no cell shows. Nadeau and Bengio (2003) put that part at n_test / n_train of the variance,
F / (F - 1) for F folds; it goes with the inverse of the sample size, as errors of what is learned do: the design effect
is d = 1 + F / (F - 1) min(1, 60 / U). The 60 is what keeps 5 % in the simulations of checks/false_wins.py.
How often it says that equal models differ is measured by checks/false_wins.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from excora.stats.correlation import Array, Codes, correlations, unit_moments
from excora.stats.units import effective_units

RESAMPLES = 2000
LEVEL = 0.95
#: Units up to which what the training part explains counts in full.
SHARED = 60.0


class Predicted(NamedTuple):
    """What the models of one seed predicted of the samples that it tests."""

    prediction: Array  #: (models, n, targets)
    target: Array  #: (n, targets), NaN where unknown
    unit: Codes  #: (n,): what is resampled together, numbered alike in all seeds
    fold: Codes  #: (n,): which training predicted it, from 0 without gaps


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


def draw(seeds: Sequence[Predicted], *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Draws]:
    """Draws of "pcc" and "mse" for every model.

    Several targets: the mean over targets. An undefined correlation counts as 0, so that a collapsed model loses; so
    does that of predictions which are constant in every fold.
    """
    seeds, unit = _numbered(seeds)
    units, models = int(unit.max()) + 1, len(seeds[0].prediction)
    counts = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), resamples).astype(np.float64)
    score, resampled = np.zeros((2, len(seeds), models)), np.zeros((2, resamples, models))
    cells: list[list[tuple[Array, Array, Array]]] = [[], []]
    for s, predicted in enumerate(seeds):
        contribution = np.zeros((2, models, len(predicted.unit)))
        for m in range(models):
            score[:, s, m], drawn, contribution[:, m] = _scores(predicted, m, counts)
            resampled[:, :, m] += drawn / len(seeds)
        for k in range(2):
            cells[k].append(_cells(contribution[k], predicted, units))
    found = {}
    for k, name in enumerate(("pcc", "mse")):
        mean, spread, share = (list(part) for part in zip(*cells[k], strict=True))
        shares = np.concatenate(share) / len(seeds)
        joined = np.concatenate(mean), np.concatenate(spread, 1), shares
        found[name] = Draws(score[k], resampled[k], *joined, effective_units(unit))
    return found


def _numbered(seeds: Sequence[Predicted]) -> tuple[list[Predicted], Codes]:
    """The same, units numbered from 0 without those that no seed tests; and the units of all samples of all seeds."""
    unit = np.unique(np.concatenate([predicted.unit for predicted in seeds]), return_inverse=True)[1].astype(np.intp)
    ends = np.cumsum([len(predicted.unit) for predicted in seeds])
    return [one._replace(unit=part) for one, part in zip(seeds, np.split(unit, ends[:-1]), strict=True)], unit


def _scores(predicted: Predicted, model: int, counts: Array) -> tuple[Array, Array, Array]:
    """PCC and MSE of a model, mean over targets: (2,); by resample (2, resamples); by sample (2, n), whose mean is the
    score: what its weight would change in it.
    """
    units, (n, targets) = counts.shape[1], predicted.target.shape
    score, drawn, contribution = np.zeros(2), np.zeros((2, len(counts))), np.zeros((2, n))
    for x, y in zip(predicted.prediction[model].T, predicted.target.T, strict=True):
        known = ~np.isnan(y)
        x, y, unit = x[known], y[known], predicted.unit[known]  # noqa: PLW2901
        if not len(y):
            continue
        squares = (x - y) ** 2
        x = x if _varies(x, predicted.fold[known]) else np.zeros_like(x)  # noqa: PLW2901
        sums = unit_moments(x, y, unit, units)
        rho, size = float(correlations(sums.sum(0))), counts @ np.bincount(unit, minlength=units)
        own = np.array([np.nan_to_num(rho), squares.mean()])
        with np.errstate(invalid="ignore", divide="ignore"):
            mse = counts @ np.bincount(unit, squares, units) / size
        again = np.stack([np.nan_to_num(correlations(counts @ sums)), mse])
        score += own / targets
        drawn += np.where(size > 0, again, own[:, None]) / targets  # none of its units drawn: nothing is known
        each = np.stack([_influence(x, y, rho), squares])
        # A sample without a label leaves the score where it is, and those that have one weigh more.
        contribution[:, known] += (each - own[:, None]) * (n / len(y)) / targets
        contribution += own[:, None] / targets
    return score, drawn, contribution


def _varies(x: Array, fold: Codes) -> bool:
    """Whether predictions differ within a fold. Means of the training parts alone go against those of the test parts:
    what a fold leaves to the others is missing in it, and the correlation of nothing would be below 0.
    """
    first = np.zeros(int(fold.max()) + 1)
    first[fold] = x
    return bool((x != first[fold]).any())


def _influence(x: Array, y: Array, rho: float) -> Array:
    """What each sample adds to the correlation: rho + x y - rho (x^2 + y^2) / 2, x, y standardised; 0 if undefined."""
    if np.isnan(rho):
        return np.zeros_like(x)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return np.asarray(rho + x * y - rho * (x * x + y * y) / 2)


def _cells(contribution: Array, predicted: Predicted, units: int) -> tuple[Array, Array, Array]:
    """Of the folds of a seed: means (folds, models), the units' parts in their errors (units, folds, models), sizes."""
    fold, folds, models = predicted.fold, int(predicted.fold.max()) + 1, len(contribution)
    place = predicted.unit * folds + fold
    size = np.bincount(fold, minlength=folds).astype(np.float64)
    mean = np.stack([np.bincount(fold, row, folds) for row in contribution], 1) / size[:, None]
    apart = contribution - mean.T[:, fold]
    part = np.stack([np.bincount(place, row, units * folds) for row in apart], 1).reshape(units, folds, models)
    # Deviations from a mean of few units are too small by this factor.
    held = np.bincount(np.unique(place) % folds, minlength=folds).astype(np.float64)
    return mean, part * np.sqrt(held / np.maximum(held - 1, 1))[:, None] / size[:, None], size / size.sum()


def errors(draws: Draws, pairs: list[tuple[int, int]], *, seed: int = 0) -> tuple[Array, Array]:
    """Differences of the pairs (pairs,) and draws of their error, (resamples, pairs), by the formula above."""
    a, b = (list(side) for side in zip(*pairs, strict=True))
    difference = (draws.score[:, a] - draws.score[:, b]).mean(0)
    error = draws.resampled[:, a] - draws.resampled[:, b] - difference
    generator = np.random.default_rng(seed)
    cells, models = draws.cell.shape
    error *= np.sqrt(design_effect(cells / len(draws.score), draws.units))
    if draws.units > 1:
        error *= np.sqrt(draws.units / _chi_squares(generator, len(error), draws.units - 1, models)[:, a, b])
    if cells == 1:  # a single training: nothing is known of others
        return difference, error
    chi = _chi_squares(generator, len(error), cells - 1.0, models)[:, a, b]
    normal = generator.normal(size=(len(error), models))
    along, scale = (normal[:, a] - normal[:, b]) / np.sqrt(2), np.sqrt((draws.share**2).sum())
    contrast = np.linalg.svd(np.ones((1, cells)))[2][1:]  # (cells - 1, cells), orthogonal to 1
    for p, (one, other) in enumerate(pairs):
        means, spread = draws.cell[:, one] - draws.cell[:, other], draws.spread[..., one] - draws.spread[..., other]
        known = spread @ contrast.T
        values, vectors = np.linalg.eigh(known.T @ known)
        variance = _solve((vectors.T @ (contrast @ means)) ** 2, np.maximum(values, 0.0), chi[:, p])
        error[:, p] += np.sqrt(variance) * scale * along[:, p]
    return difference, error


def design_effect(folds: float, units: float) -> float:
    """1 + F / (F - 1) min(1, 60 / U): of training parts that share most of U units; 1 for a test part of its own.

    >>> round(design_effect(5, 50), 3), round(design_effect(5, 1200), 4), design_effect(1, 50)
    (2.25, 1.0625, 1.0)
    """
    return 1.0 + folds / (folds - 1.0) * min(1.0, SHARED / units) if folds > 1 else 1.0


def _chi_squares(generator: np.random.Generator, size: int, degrees: float, models: int) -> Array:
    """Draws (size, models, models) of the chi^2 of each pair: the squared deviations of x_a - x_b, of variance 2, / 2.

    x are ``degrees`` + 1 independent normal values of each model. Every pair's variance is known from its own few units
    or cells: what is drawn for it has to go together with what is drawn for the others as for models with errors of
    their own, else the worst of many pairs would seem as well known as one. By Bartlett's decomposition: the sums of
    products of x are L L', L lower triangular with normal entries and roots of chi^2 of degrees - j on the diagonal.
    """
    width = min(models, int(np.ceil(degrees)))
    lower = np.tril(generator.normal(size=(size, models, width)), -1)
    for j in range(width):
        lower[:, j, j] = np.sqrt(generator.chisquare(degrees - j, size))
    return np.asarray(((lower[:, :, None] - lower[:, None]) ** 2).sum(-1) / 2)


#: Of v, in units of the largest that it can be.
_GRID = np.geomspace(1.0, 1e-12, 500)


def _solve(square: Array, known: Array, chi: Array) -> Array:
    """v >= 0 with sum_k square_k / (known_k + v) = chi, for each chi; 0 where that would be negative."""
    total = square.sum()
    if not total > 0:
        return np.zeros_like(chi)
    # The sum falls in v and is at most total / v: a fine grid below that, and straight lines between.
    grid = total / chi.min() * _GRID
    height = (square / (known + grid[:, None])).sum(1)
    return np.interp(chi, height, grid, right=0.0)


def pairwise(difference: Array, error: Array) -> list[Bounds]:
    """The 95 % interval of each pair by itself."""
    low, high = np.quantile(error, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [Bounds(*map(float, row)) for row in zip(difference, difference + low, difference + high, strict=True)]
