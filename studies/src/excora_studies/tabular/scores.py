"""Scores of a row on the test part, and the paired difference of two rows with its interval."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.stats.correlation import pearson, selection_mean
from excora.stats.paired import Predicted, draw, errors, pairwise
from excora.stats.scores import squared_error
from excora.stats.units import sample_units
from excora_studies.tabular.rows import Floats


def scores(prediction: Floats, target: Floats) -> dict[str, float]:
    """On the scale of the target."""
    found = {"MAE": float(np.abs(prediction - target).mean())}
    return found | {"MSE": squared_error(prediction, target), "PCC": selection_mean(pearson(prediction, target))}


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
    first: list[Floats], second: list[Floats], target: list[Floats], unit: list[NDArray[np.intp]]
) -> dict[str, dict[str, Any]]:
    """first - second in PCC and in MSE (of the standardised target), with 95 % intervals of :mod:`excora.stats.paired`.

    Lists are by seed, arrays over the test rows of that seed, which one training has predicted. Units (rows,
    compositions, blocks of time) have the same number in every seed.
    """
    seen = np.unique(np.concatenate(unit))
    block = sample_units(len(seen))  # at most 2,000: a resample is a count for each
    seeds = [
        Predicted(np.stack([a, b])[..., None], y[:, None], block[np.searchsorted(seen, u)], np.zeros(len(y), np.intp))
        for a, b, y, u in zip(first, second, target, unit, strict=True)
    ]
    return {name.upper(): pairwise(*errors(draws, [(0, 1)]))[0]._asdict() for name, draws in draw(seeds).items()}
