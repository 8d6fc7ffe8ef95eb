"""The trend of a series and the plateau detector."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import diagnosis as oracle

from excora.diagnosis import detect_plateau
from excora.diagnosis.trend import trend
from excora.errors import InputError


def curve(epochs: int, *, rise: float, noise: float, seed: int, memory: float = 0.5) -> np.ndarray:
    """PCC that rises by ``rise`` in all, with AR(1) noise of standard deviation ``noise``."""
    generator = np.random.default_rng(seed)
    wobble = np.zeros(epochs)
    for t in range(1, epochs):
        wobble[t] = memory * wobble[t - 1] + math.sqrt(1 - memory**2) * generator.normal(0, noise)
    return 0.5 + rise * np.arange(epochs) / epochs + wobble


@given(st.lists(st.floats(-1, 1), min_size=10, max_size=60), st.integers(0, 99))
def test_trend_is_least_squares_and_its_interval_holds_the_change(values, seed) -> None:
    series = np.array(values)
    found = trend(series, confidence=0.95, resamples=200, generator=np.random.default_rng(seed))
    assert found.change == pytest.approx(oracle.change(series), abs=1e-9)
    assert found.low <= found.high
    assert found.high - found.low <= 40 * (np.ptp(series) + 1e-12)


def test_flat_noisy_curves_are_seldom_called_improving_and_rising_ones_seldom_flat() -> None:
    mse = np.linspace(1.0, 0.5, 60)
    flat = [detect_plateau(curve(60, rise=0.0, noise=0.01, seed=s), mse).state for s in range(120)]
    rising = [detect_plateau(curve(60, rise=0.3, noise=0.01, seed=s), mse).state for s in range(120)]
    assert flat.count("plateau") >= 104
    assert rising.count("improving") >= 114


def test_detector_names_the_start_the_state_and_is_deterministic() -> None:
    epochs = np.arange(120)
    rho = np.where(epochs < 40, 0.02 * epochs, 0.8) + np.random.default_rng(0).normal(0, 0.003, 120)
    falling, still = 2.0 - 0.01 * epochs, np.ones(120)
    found = detect_plateau(rho, falling)
    assert found.state == "plateau"
    assert 30 <= found.start <= 50
    assert detect_plateau(rho, falling) == found
    assert detect_plateau(rho, falling, seed=1).pcc != found.pcc
    assert detect_plateau(rho, still).state == "converged"
    assert detect_plateau(rho, 1 + 0.01 * epochs).state == "converged"
    assert detect_plateau(rho[::-1], falling).state == "worsening"
    assert detect_plateau(rho[:40], falling[:40]).state == "improving"
    assert detect_plateau(rho, falling, window=100).state == "improving"
    holes = [None if e % 5 == 0 else float(r) for e, r in enumerate(rho)]
    gap = detect_plateau(holes, falling)
    assert gap.state == "plateau"
    assert 30 <= gap.start <= 50


@given(st.integers(0, 14))
def test_short_series_are_too_short_not_an_error(n) -> None:
    found = detect_plateau([0.5] * n, [1.0] * n)
    assert (found.state == "too short") == (n < 12)
    assert found.start is None or n >= 12


def test_detector_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="one number an epoch"):
        detect_plateau([0.1, 0.2], [1.0])
    with pytest.raises(InputError, match="at least 10"):
        detect_plateau([0.1] * 20, [1.0] * 20, window=3)
    assert detect_plateau([None] * 30, [1.0] * 30).state == "too short"
