"""Edges, density, outlier and alignment against exact values and against covariances of drawn sequences."""

from __future__ import annotations

import numpy as np
import pytest

from excora.errors import InputError
from excora.tasks.pooled_mixture import PooledMixtureTask
from excora.theory.spectral import (
    best_weights,
    bulk_edges,
    critical,
    density,
    gain_of,
    harmonic_weights,
    recovery,
    sequences_needed,
)

EARLY = 0.9 * 0.8 ** np.arange(16)
CORRELATION = np.outer(EARLY, EARLY) + np.diag(1 - EARLY**2)


@pytest.mark.parametrize(
    ("gamma", "delta", "threshold", "lower", "upper"),
    [
        (0.1, 0.1, 0.5, 0.3375, 2.16),
        (0.25, 0.5, 1.0545466755988047, 0.0559355743188758, 3.746690222677065),
        (0.5, 0.0, np.sqrt(0.5), (1 - np.sqrt(0.5)) ** 2, (1 + np.sqrt(0.5)) ** 2),  # Marchenko-Pastur
    ],
)
def test_bulk_edges(gamma, delta, threshold, lower, upper):
    assert critical(gamma, delta) == pytest.approx(threshold, abs=1e-9)
    np.testing.assert_allclose(bulk_edges(gamma, delta), (lower, upper), atol=1e-9)
    np.testing.assert_allclose(bulk_edges(gamma, delta, kappa=3.0), (3 * lower, 3 * upper), atol=1e-8)
    assert critical(gamma, delta) > np.sqrt(delta)  # the sample's threshold comes second


@pytest.mark.parametrize(("gamma", "delta"), [(0.25, 0.5), (0.1, 0.1), (0.6, 0.05)])
def test_density_moments(gamma, delta):
    lower, upper = bulk_edges(gamma, delta)
    # x = middle - half cos(a): the roots at the edges vanish
    a = (np.arange(4000) + 0.5) * np.pi / 4000
    x = (lower + upper) / 2 - (upper - lower) / 2 * np.cos(a)
    mass = density(x, gamma, delta) * (upper - lower) / 2 * np.sin(a) * np.pi / 4000
    np.testing.assert_allclose([mass.sum(), mass @ x, mass @ x**2], [1, 1, 1 + gamma + delta], atol=1e-5)
    np.testing.assert_array_equal(density([-1.0, 0.0, lower / 2, 2 * upper], gamma, delta), 0.0)
    assert density(1.0, gamma, delta).shape == ()


def _top(dim, length, signal, correlation, seed):
    """Largest eigenvalue / kappa and alignment, at gamma = 1/4 and delta = 1/2, of mean weights."""
    task = PooledMixtureTask(
        dim=dim,
        vocabulary=2 * dim,
        length=length,
        signal=signal,
        first=np.sqrt(correlation),
        decay=1.0,
        table_seed=seed,
    )
    x, _ = task.sample(4 * dim, seed=seed)
    pooled = x.mean(1).double().numpy()
    values, vectors = np.linalg.eigh(np.cov(pooled.T, bias=True))
    mu = task.table()[1].numpy()
    return values[-1] * length, (vectors[:, -1] @ mu) ** 2 / (mu @ mu)


@pytest.mark.parametrize(("correlation", "signal"), [(1e-9, 3.0), (0.25, 0.5), (0.64, 0.3)])
def test_recovery_is_what_sequences_show(correlation, signal):
    length = 16
    gain = gain_of(np.ones(length), np.full((length, length), correlation) + (1 - correlation) * np.eye(length))
    expected = recovery(signal, gain, 0.25, 0.5)
    seen = np.mean([_top(200, length, signal, correlation, seed) for seed in range(4)], 0)
    assert seen[0] == pytest.approx(expected.outlier, rel=0.08)
    assert seen[1] == pytest.approx(expected.alignment, abs=0.08)
    assert expected.separates


def test_recovery_fixed_values_and_the_edge():
    found = recovery(1.5, 1.0, 0.25, 0.5)
    assert (found.outlier, found.alignment) == (pytest.approx(3.888889, abs=1e-6), pytest.approx(0.345238, abs=1e-6))
    below = recovery(1.0, 1.0, 0.25, 0.5)
    assert not below.separates
    assert below.outlier == below.edge
    assert below.alignment == 0.0


def test_sequences_needed_is_where_it_separates():
    needed = sequences_needed(2.0, 1.3, dim=100, vocabulary=400)
    assert recovery(2.0, 1.3, 100 / (needed * 1.001), 0.25).separates
    assert not recovery(2.0, 1.3, 100 / (needed * 0.999), 0.25).separates
    assert sequences_needed(0.1, 1.0, dim=100, vocabulary=400) == np.inf


def test_best_weights_beat_harmonic_beats_mean_when_early_positions_tell_more():
    gains = [gain_of(w, CORRELATION) for w in (np.ones(16), harmonic_weights(16), best_weights(CORRELATION))]
    np.testing.assert_allclose(gains, [2.0549, 2.7343, 2.7882], atol=1e-4)
    assert gains[2] == pytest.approx(np.linalg.eigvalsh(CORRELATION)[-1])
    late = CORRELATION[::-1, ::-1]
    assert gain_of(harmonic_weights(16), late) == pytest.approx(1.0992, abs=1e-4)
    assert gain_of(np.ones(16), late) == pytest.approx(gains[0])


def test_harmonic_weights_are_those_of_causal_attention():
    weights = harmonic_weights(10)
    assert (weights[0], weights @ weights) == (pytest.approx(0.2928968, abs=1e-7), pytest.approx(0.1707103, abs=1e-7))
    tau, length, dim = 1.0, 12, 20_000
    x = np.random.default_rng(0).normal(size=(length, dim))
    scores = np.where(np.tril(np.ones((length, length))) > 0, tau * (x @ x.T) / dim, -np.inf)
    attention = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(harmonic_weights(length, tau), attention.mean(0), atol=2e-3)


@pytest.mark.parametrize(("gamma", "delta"), [(0.0, 0.5), (-1.0, 0.5), (0.5, -0.1), (np.nan, 0.1)])
def test_ratios_are_checked(gamma, delta):
    with pytest.raises(InputError, match="must be positive"):
        bulk_edges(gamma, delta)


def test_a_correlation_must_be_symmetric():
    with pytest.raises(InputError, match="symmetric"):
        best_weights([[1.0, 0.5], [0.2, 1.0]])
    with pytest.raises(InputError, match="one weight a position"):
        gain_of([1.0], np.eye(2))
