"""Confidence intervals of a correlation: bootstrap over rows or groups from their moments, Fisher's z for few."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from excora.stats.correlation import Array, Codes, correlations, unit_moments
from excora.stats.units import UNITS

RESAMPLES = 1000
FEW_ROWS, FEW_GROUPS = 30, 10


@dataclasses.dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval and how that was made; NaN bounds where there is no way to make one."""

    value: float
    low: float
    high: float
    method: str

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def fisher(rho: float, n: float) -> tuple[float, float]:
    """Fisher's interval tanh(atanh(rho) +- 1.96 / sqrt(n - 3)); NaN for n <= 3."""
    if not n > 3 or math.isnan(rho):
        return math.nan, math.nan
    z, reach = math.atanh(min(max(rho, -1 + 1e-15), 1 - 1e-15)), 1.959964 / math.sqrt(n - 3)
    return math.tanh(z - reach), math.tanh(z + reach)


def pooled_interval(x: Array, y: Array, group: Codes | None = None, *, seed: int = 0) -> Interval:
    """Correlation over all rows. Groups, where given and at least 10, are resampled whole: their rows are not
    independent. Below 30 rows or 10 groups Fisher's z over rows, which takes them as independent.

    ``x`` prediction and ``y`` target (n,), NaN where unknown: such rows do not count. ``group`` (n,) numbered from 0.

    >>> y = np.arange(40.0)
    >>> print(pooled_interval(y + 5 * np.sin(y), y))
    0.956 [0.937, 0.970]
    """
    known = ~np.isnan(y)
    if not known.all():
        x, y = x[known], y[known]
        group = None if group is None else np.unique(group[known], return_inverse=True)[1].astype(np.intp)
    if not len(y):
        return Interval(math.nan, math.nan, math.nan, "no label is known")
    generator = np.random.default_rng(seed)
    if group is None:
        few, method = len(x) < FEW_ROWS, "bootstrap over rows"
        units = min(len(x), UNITS)
        unit = generator.permutation(len(x)) % units
    else:
        unit, units = group, int(group.max()) + 1
        few, method = units < FEW_GROUPS, "bootstrap over groups"
    moments = unit_moments(x, y, unit, units)
    rho = float(correlations(moments.sum(0)))
    if few or math.isnan(rho):
        return Interval(rho, *fisher(rho, len(x)), "Fisher z over rows")
    counts = generator.multinomial(units, np.full(units, 1 / units), RESAMPLES)
    return Interval(rho, *_quantiles(correlations(counts @ moments)), method)


def group_interval(rho: Array, sizes: Array, *, seed: int = 0) -> Interval:
    """Mean of the groups' correlations (defined ones), by a bootstrap over groups; Fisher's z for fewer than 10."""
    mean = float(rho.mean()) if len(rho) else math.nan
    if len(rho) >= FEW_GROUPS:
        generator = np.random.default_rng(seed)
        drawn = rho[generator.integers(0, len(rho), (RESAMPLES, len(rho)))].mean(1)
        return Interval(mean, *_quantiles(drawn), "bootstrap over groups")
    large = sizes > 3
    if not large.any():
        return Interval(mean, math.nan, math.nan, "groups of more than 3 rows are needed")
    z = np.arctanh(np.clip(rho[large], -1 + 1e-15, 1 - 1e-15))
    reach = 1.959964 * math.sqrt(float((1 / (sizes[large] - 3)).sum())) / int(large.sum())
    return Interval(mean, math.tanh(z.mean() - reach), math.tanh(z.mean() + reach), "Fisher z, groups as independent")


def _quantiles(values: Array) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (math.nan, math.nan)
    return float(low), float(high)
