"""All pairs of several models at once: which differences are more than chance, with at most 5 % for one false word.

Correlations are compared on Fisher's scale z = atanh(rho), on which the error of a score hardly depends on the score:
the bootstrap of a poor model is not stretched by the room it has, and equal models are equal on either scale. An
interval comes back by the secant slope k = (rho_a - rho_b) / (z_a - z_b) of that pair, so that its sign is the same.

The pairs are judged in steps (Romano and Wolf 2005, "Stepwise multiple testing as formalized data snooping"). With
errors e_p of all pairs in each draw and the half-width w_p of the 95 % interval of pair p alone,

    c(K) = 95 % quantile of max_{p in K} |e_p| / w_p,    at least 1,

pairs with |D_p| > c(K) w_p are found to differ, K loses them, and the others are tried again with the smaller c(K)
until nothing more is found. Errors that models share are used, and picking the best of many is paid for. The interval
of a pair is D_p +- c w_p with the c of its last trial. checks/false_wins.py measures how often a word is false.
"""

from __future__ import annotations

import numpy as np

from excora.stats.correlation import Array
from excora.stats.paired import LEVEL, Bounds, Draws, errors

#: A correlation nearer to 1 than this counts as this near: Fisher's scale has no end.
NEAREST = 1e-12


def fisher_scale(draws: Draws) -> Draws:
    """The draws of a correlation on the scale of z = atanh(rho), dz = d rho / (1 - rho^2) at the mean over seeds."""
    mean = _inside(draws.score.mean(0))
    slope = 1 / (1 - mean**2)
    score = np.arctanh(mean)[None].repeat(len(draws.score), 0)
    again = np.arctanh(_inside(draws.resampled))
    return draws._replace(score=score, resampled=again, cell=draws.cell * slope, spread=draws.spread * slope)


def _inside(rho: Array) -> Array:
    return np.clip(rho, NEAREST - 1, 1 - NEAREST)


def judge(draws: Draws, pairs: list[tuple[int, int]], *, correlation: bool, seed: int = 0) -> list[Bounds]:
    """Differences of the pairs, first minus second, with intervals that exclude 0 where the steps find a difference.

    ``correlation``: whether the scores are correlations, to be judged on Fisher's scale.
    """
    if not pairs:
        return []
    difference, error = errors(fisher_scale(draws) if correlation else draws, pairs, seed=seed)
    reach = stepwise(difference, error)
    if correlation:
        a, b = (draws.score.mean(0)[list(side)] for side in zip(*pairs, strict=True))
        middle = 1 - _inside((a + b) / 2) ** 2  # the slope where both are equal
        slope = np.where(difference != 0, (a - b) / np.where(difference != 0, difference, 1.0), middle)
        difference, reach = a - b, reach * slope
        reach = np.minimum(reach, 2.0)  # correlations differ by no more
    rows = zip(difference, difference - reach, difference + reach, strict=True)
    return [Bounds(*map(float, row)) for row in rows]


def stepwise(difference: Array, error: Array) -> Array:
    """Half-width of the interval of each pair, (pairs,), by the steps above; ``error`` (draws, pairs)."""
    low, high = np.quantile(error, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    width = (high - low) / 2
    scaled = np.abs(error) / np.where(width > 0, width, np.inf)
    reach, left = np.zeros_like(width), np.ones(len(width), bool)
    while left.any():
        factor = max(float(np.quantile(scaled[:, left].max(1), LEVEL)), 1.0)
        reach[left] = factor * width[left]
        found = left & (np.abs(difference) > reach)
        if not found.any():
            break
        left &= ~found
    return reach
