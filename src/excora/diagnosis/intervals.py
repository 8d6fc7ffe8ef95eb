"""Confidence intervals of a correlation: bootstrap over rows or groups from their moments, Fisher's z for few."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RESAMPLES = 1000
FEW_ROWS, FEW_GROUPS = 30, 10
UNITS = 2000  # more rows than this are resampled in random blocks: as good, and it costs the same for a million rows


@dataclasses.dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval and how that was made; NaN bounds where there is no way to make one."""

    value: float
    low: float
    high: float
    method: str

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def unit_moments(x: Array, y: Array, unit: NDArray[np.intp], units: int) -> Array:
    """Sums of (1, x, y, xx, yy, xy) of each unit, x and y centred and scaled over all rows: (units, 6)."""
    x, y = _standard(x), _standard(y)
    columns = (np.ones_like(x), x, y, x * x, y * y, x * y)
    return np.stack([np.bincount(unit, column, units) for column in columns], 1)


def correlations(moments: Array) -> Array:
    """Correlation from sums (..., 6); NaN where one of the two is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = x / n, y / n
        variance_x, variance_y = xx / n - x * x, yy / n - y * y
        rho = (xy / n - x * y) / np.sqrt(variance_x * variance_y)
    # Both are of unit scale here, so an absolute limit tells spread from rounding.
    return np.where((variance_x > 1e-14) & (variance_y > 1e-14), np.clip(rho, -1.0, 1.0), np.nan)


def _standard(x: Array) -> Array:
    centred = x - x.mean()
    centred -= centred.mean()
    scale = np.sqrt(np.mean(centred**2))
    return centred / scale if scale > 4 * np.finfo(np.float64).eps * abs(x.mean()) else np.zeros_like(x)


def fisher(rho: float, n: float) -> tuple[float, float]:
    """Fisher's interval tanh(atanh(rho) +- 1.96 / sqrt(n - 3)); NaN for n <= 3."""
    if not n > 3 or math.isnan(rho):
        return math.nan, math.nan
    z, reach = math.atanh(min(max(rho, -1 + 1e-15), 1 - 1e-15)), 1.959964 / math.sqrt(n - 3)
    return math.tanh(z - reach), math.tanh(z + reach)


def pooled_interval(x: Array, y: Array, group: NDArray[np.intp] | None, *, seed: int = 0) -> Interval:
    """Correlation over all rows. Groups, where given and at least 10, are resampled whole: their rows are not
    independent. Below 30 rows or 10 groups Fisher's z over rows, which takes them as independent.
    """
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
