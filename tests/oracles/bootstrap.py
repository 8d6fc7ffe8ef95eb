"""Slow, obvious versions of the paired bootstrap, and predictions of models that are equally good by construction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq


def pcc(x: np.ndarray, y: np.ndarray) -> float:
    a, b = x - x.mean(), y - y.mean()
    spread = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / spread) if spread > 0 else 0.0


def resampled(
    prediction: np.ndarray, target: np.ndarray, unit: np.ndarray, counts: np.ndarray, name: str
) -> np.ndarray:
    """The score of each model, mean over targets and seeds, of a data set that has each unit ``counts`` times."""
    rows = np.concatenate([np.tile(np.flatnonzero(unit == u), c) for u, c in enumerate(counts)]).astype(int)
    seeds, models, _, targets = prediction.shape
    found = np.zeros(models)
    for m in range(models):
        for s in range(seeds):
            for t in range(targets):
                x, y = prediction[s, m, rows, t], target[rows, t]
                found[m] += (pcc(x, y) if name == "pcc" else ((x - y) ** 2).mean()) / (seeds * targets)
    return found


def influence(x: np.ndarray, y: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """d PCC / d weight of each sample, times n, by finite differences of the weighted correlation."""

    def weighted(w: np.ndarray) -> float:
        a, b = x - np.average(x, weights=w), y - np.average(y, weights=w)
        return (w * a * b).sum() / np.sqrt((w * a * a).sum() * (w * b * b).sum())

    n, found = len(x), []
    for i in range(n):
        more, less = np.ones(n), np.ones(n)
        more[i], less[i] = 1 + step, 1 - step
        found.append(n * (weighted(more) - weighted(less)) / (2 * step))
    return np.array(found)


def cell_covariance(contribution: np.ndarray, unit: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Covariance of the cells' means (seed by seed, fold by fold) by unit, cell by cell; contribution (seeds, n)."""
    cells = [(s, f) for s in range(len(fold)) for f in range(fold.max() + 1)]
    errors = np.zeros((unit.max() + 1, len(cells)))
    for c, (s, f) in enumerate(cells):
        inside = fold[s] == f
        mean, held = contribution[s, inside].mean(), set(unit[inside])
        for u in held:
            mine = inside & (unit == u)
            errors[u, c] = (contribution[s, mine] - mean).sum() / inside.sum() * np.sqrt(len(held) / (len(held) - 1))
    return errors.T @ errors


def excess_variance(means: np.ndarray, covariance: np.ndarray, chi: float) -> float:
    """v >= 0 with c' K' (K (C + v I) K')^-1 K c = chi, K any basis of contrasts; 0 if there is none."""
    cells = len(means)
    contrasts = np.eye(cells)[1:] - np.eye(cells)[:-1]

    def statistic(v: float) -> float:
        inner = contrasts @ (covariance + v * np.eye(cells)) @ contrasts.T
        return float(contrasts @ means @ np.linalg.solve(inner, contrasts @ means)) - chi

    return float(brentq(statistic, 0.0, 1e6)) if statistic(0.0) > 0 else 0.0


class World(NamedTuple):
    """Predictions (seeds, models, n, 1), target (n, 1), fold (seeds, n); group and time (n,) or None.

    ``tested`` (seeds, n): the samples of a seed's test part; None: all of them, by cross-validation.
    """

    prediction: np.ndarray
    target: np.ndarray
    fold: np.ndarray
    group: np.ndarray | None = None
    time: np.ndarray | None = None
    tested: np.ndarray | None = None


def equal_models(
    generator: np.random.Generator,
    *,
    models: int = 2,
    n: int = 200,
    seeds: int = 3,
    folds: int = 5,
    groups: int | None = None,
    lag: float | None = None,
    pcc: float = 0.7,
    shared: float = 0.7,
    unstable: float = 0.3,
    luck: float = 0.0,
    better: float = 0.0,
    hold_out: float | None = None,
    tails: float | None = None,
    lucky: int | None = None,
) -> World:
    """Models of one expected correlation ``pcc``, the last one ``better`` by that much.

    ``shared``: part of the error that models have in common. ``unstable``: part of it that is new in each seed.
    ``luck``: standard deviation of a training's own correlation. Of ``groups``, a third of the error is common to each.
    ``hold_out``: each seed is one training, and tests that share of the samples, or of the groups; of time-ordered ones
    the last.
    ``tails``: target and errors have Student's distribution of so many degrees of freedom. ``lucky``: only that model
    has luck.
    ``lag``: time-ordered, folds are stretches, and target and errors of neighbours have this correlation.
    """
    y = _normal(generator, (1, n), tails)[0]
    y = y if lag is None else _smooth(y[None], lag)[0]
    group = None if groups is None else generator.integers(0, groups, n)

    def noise(count: int) -> np.ndarray:
        rows = _normal(generator, (count, n), tails)
        if group is None:
            return rows if lag is None else _smooth(rows, lag)
        return np.sqrt(2 / 3) * rows + np.sqrt(1 / 3) * generator.normal(size=(count, groups))[:, group]

    fixed = np.sqrt(shared) * noise(1) + np.sqrt(1 - shared) * noise(models)
    error = np.sqrt(1 - unstable) * fixed + np.sqrt(unstable) * _normal(generator, (seeds, models, n), tails)
    if lag is not None:
        fold = np.tile(np.arange(n) * folds // n, (seeds, 1))
    elif group is None:
        fold = np.stack([generator.permutation(n) % folds for _ in range(seeds)])
    else:
        fold = np.stack([(generator.permutation(groups) % folds)[group] for _ in range(seeds)])
    if hold_out is not None:
        fold, folds = np.zeros_like(fold), 1
    quality = luck * generator.normal(size=(seeds, models, folds))
    quality = pcc + quality * (1.0 if lucky is None else (np.arange(models) == lucky)[:, None])
    quality[:, -1] += better
    quality = np.clip(quality, -0.99, 0.99)
    each = np.stack([quality[s][:, fold[s]] for s in range(seeds)])
    prediction = (each * y + np.sqrt(1 - each**2) * error)[..., None]
    time = None if lag is None else np.arange(float(n))
    tested = None if hold_out is None else _held_out(generator, hold_out, seeds, time, group, n)
    return World(prediction, y[:, None], fold, group, time, tested)


def _normal(generator: np.random.Generator, size: tuple[int, ...], tails: float | None) -> np.ndarray:
    """Of variance 1; with tails Student's."""
    return generator.normal(size=size) if tails is None else generator.standard_t(tails, size) * np.sqrt(1 - 2 / tails)


def _held_out(generator, share: float, seeds: int, time, group, n: int) -> np.ndarray:
    """(seeds, n) boolean."""
    if time is not None:
        return np.tile(time >= (1 - share) * n, (seeds, 1))
    unit = np.arange(n) if group is None else group
    units = unit.max() + 1
    return np.stack([(generator.permutation(units) < share * units)[unit] for _ in range(seeds)])


def _smooth(rows: np.ndarray, lag: float) -> np.ndarray:
    """Stationary rows of that lag-one correlation, from independent ones."""
    found = rows.copy()
    for i in range(1, rows.shape[1]):
        found[:, i] = lag * found[:, i - 1] + np.sqrt(1 - lag**2) * rows[:, i]
    return found
