"""Scores of a row on the test part, and the paired difference of two rows with its interval."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.diagnosis.intervals import correlations, unit_moments
from excora.estimators.ensemble import pcc
from excora_studies.tabular.rows import Floats, mse

RESAMPLES = 2000


def scores(prediction: Floats, target: Floats) -> dict[str, float]:
    """On the scale of the target."""
    found = {"MAE": float(np.abs(prediction - target).mean())}
    return found | {"MSE": mse(prediction, target), "PCC": pcc(prediction, target)}


def pack(prediction: Floats) -> str:
    """Standardised predictions as text, 11 bits each: enough for an interval, and small.

    >>> unpack(pack(np.array([0.5, -1.25, 3.0]))).tolist()
    [0.5, -1.25, 3.0]
    """
    return base64.b64encode(prediction.astype("<f2").tobytes()).decode()


def unpack(text: str) -> Floats:
    """What :func:`pack` packed."""
    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64)


def pack_codes(codes: NDArray[np.intp]) -> str:
    """Numbers from 0 as text.

    >>> unpack_codes(pack_codes(np.array([0, 70_000]))).tolist()
    [0, 70000]
    """
    return base64.b64encode(codes.astype("<u4").tobytes()).decode()


def unpack_codes(text: str) -> NDArray[np.intp]:
    """What :func:`pack_codes` packed."""
    return np.frombuffer(base64.b64decode(text), "<u4").astype(np.intp)


def paired(
    first: list[Floats], second: list[Floats], target: list[Floats], unit: list[NDArray[np.intp]], *, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """first - second in PCC and in MSE (of the standardised target), with 95 % intervals.

    Lists are by seed, arrays over the test rows of that seed. A resample draws seeds with replacement, and units (rows,
    compositions, blocks of time) with replacement from all units, the same ones for every seed and both rows: D* is the
    mean over drawn seeds of the difference of scores over drawn units.
    """
    generator = np.random.default_rng(seed)
    seen = np.unique(np.concatenate(unit))
    unit, units = [np.searchsorted(seen, u) for u in unit], len(seen)
    counts = generator.multinomial(units, np.full(units, 1 / units), RESAMPLES).astype(np.float64)
    drawn = np.zeros((2, len(first), RESAMPLES))
    mean = np.zeros((2, len(first)))
    for s, (a, b, y, u) in enumerate(zip(first, second, target, unit, strict=True)):
        sums = [unit_moments(x, y, u, units) for x in (a, b)]
        drawn[0, s] = np.nan_to_num(correlations(counts @ sums[0])) - np.nan_to_num(correlations(counts @ sums[1]))
        worse = np.bincount(u, (a - y) ** 2 - (b - y) ** 2, units)
        drawn[1, s] = counts @ worse / (counts @ np.bincount(u, minlength=units))
        mean[:, s] = pcc(a, y) - pcc(b, y), mse(a, y) - mse(b, y)
    chosen = generator.integers(0, len(first), (RESAMPLES, len(first)))
    found = {}
    for k, name in enumerate(("PCC", "MSE")):
        resampled = drawn[k][chosen, np.arange(RESAMPLES)[:, None]].mean(1)
        low, high = np.quantile(resampled, [0.025, 0.975])
        found[name] = {"difference": float(mean[k].mean()), "low": float(low), "high": float(high)}
    return found
