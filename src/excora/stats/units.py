"""What is resampled together: samples, groups whole, blocks of time."""

from __future__ import annotations

import numpy as np

from excora.stats.correlation import Array, Codes

#: More samples than this are resampled in random blocks: as good, and it costs the same for a million of them.
UNITS = 2000


def sample_units(samples: int, *, group: Codes | None = None, time: Array | None = None) -> Codes:
    """The unit that each sample is resampled with, (samples,), numbered from 0.

    Groups whole; of time-ordered samples blocks of about sqrt(n) neighbours, for neighbours are alike; else each sample
    by itself. More than 2,000 samples or groups are put into 2,000 random blocks.

    >>> sample_units(9, time=np.arange(9.0)[::-1]).tolist()
    [2, 2, 2, 1, 1, 1, 0, 0, 0]
    """
    if group is not None:
        names, codes = np.unique(group, return_inverse=True)
        return sample_units(len(names))[codes.astype(np.intp)]
    if time is not None:
        blocks = max(int(np.sqrt(samples)), 1)
        rank = np.empty(samples, dtype=np.intp)
        rank[np.argsort(time, kind="stable")] = np.arange(samples)
        return rank * blocks // samples
    if samples <= UNITS:
        return np.arange(samples)
    return np.random.default_rng(0).permutation(samples) % UNITS


def effective_units(unit: Codes) -> float:
    """How many units of one size the units are worth: (sum n_u)^2 / sum n_u^2.

    >>> effective_units(np.array([0, 0, 1, 1, 2, 2]))
    3.0
    """
    sizes = np.bincount(unit).astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum())
