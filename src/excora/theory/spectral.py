"""Random matrices and pooling: when does the signal of pooled sequences separate from the noise of a covariance?

    table  E = mu c' + Z (d x V), c = +-1 balanced, Z of N(0, 1)
    a sequence: classes s_l = +-1 with E[s_l s_m] = R_lm, its l-th token uniform in its class
    x = sum_l w_l e_(t_l);   S the centred sample covariance of N of them

With alpha = w'Rw, kappa = |w|^2, r = |mu|^2, d/V -> delta, d/N -> gamma all follows from one number,

    s = (alpha/kappa) (r + delta) - delta,      f(s) = (s + 1)(s + gamma)(s + delta) / s^2

Weights matter by alpha/kappa alone: the best are the top eigenvector of R. The formulas are derived here, after the
abstract of Seddik, "A random matrix theory of attention pooling" (arXiv 2605.06826), and checked by simulation; the
paper's normalisation may differ. The data must be centred, else the vocabulary's mean adds a spike of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from excora.errors import InputError

Array = NDArray[np.float64]


def _check(gamma: float, delta: float) -> None:
    if not (np.isfinite(gamma) and gamma > 0 and np.isfinite(delta) and delta >= 0):
        raise InputError(
            f"gamma = width / sequences must be positive and delta = width / vocabulary not negative, both finite, "
            f"got {gamma} and {delta}"
        )


def _f(s: Array, gamma: float, delta: float) -> Array:
    return (s + 1.0) * (s + gamma) * (s + delta) / s**2


def critical(gamma: float, delta: float) -> float:
    """s*, above which a spike leaves the sample's bulk: the largest root of f', s^3 - (g + d + g d) s - 2 g d = 0.

    Above sqrt(delta) it has left the population's bulk, which comes first. delta = 0 gives sqrt(gamma).

    >>> round(critical(0.1, 0.1), 12)
    0.5
    """
    return float(_critical_points(gamma, delta).max())


def _critical_points(gamma: float, delta: float) -> Array:
    _check(gamma, delta)
    roots = np.roots([1.0, 0.0, -(gamma + delta + gamma * delta), -2.0 * gamma * delta])
    return np.sort(roots.real[np.abs(roots.imag) < 1e-9 * np.abs(roots).max()])


def bulk_edges(gamma: float, delta: float, kappa: float = 1.0) -> tuple[float, float]:
    """Lower and upper edge of the noise's eigenvalues, kappa f at the critical points.

    >>> tuple(round(edge, 10) for edge in bulk_edges(0.1, 0.1))
    (0.3375, 2.16)
    """
    points = _critical_points(gamma, delta)
    values = _f(points[points != 0], gamma, delta)
    below = values[points[points != 0] < 0]
    positive = below[below > 0]
    # More dimensions than sequences or tokens: eigenvalues of 0 and, at equality, a bulk that reaches 0.
    lower = float(positive.max()) if len(positive) else 0.0
    return kappa * lower, kappa * float(values[-1])


def density(x: ArrayLike, gamma: float, delta: float) -> Array:
    """Density of the noise's eigenvalues for kappa = 1; an atom of max(0, 1 - 1/max(gamma, delta)) at 0 is beside it.

    rho = |Im G| / pi, G = (1 + 1/s) / x, s the root of s^3 + (1 + g + d - x) s^2 + (g + d + g d) s + g d = 0 with the
    largest imaginary part.

    >>> float(density(1.0, 0.25, 0.5).round(4))
    0.3396
    """
    _check(gamma, delta)
    x = np.asarray(x, float)
    at = np.maximum(x.ravel(), np.finfo(float).tiny)
    companion = np.zeros((at.size, 3, 3))
    companion[:, 1, 0] = companion[:, 2, 1] = 1.0
    companion[:, 0, 2], companion[:, 1, 2] = -gamma * delta, -(gamma + delta + gamma * delta)
    companion[:, 2, 2] = at - 1.0 - gamma - delta
    roots = np.linalg.eigvals(companion).astype(complex)
    s = np.take_along_axis(roots, roots.imag.argmax(1)[:, None], 1)[:, 0]
    within = (s.imag > 1e-12 * np.abs(s)) & (x.ravel() > 0)
    found = np.abs(((1.0 + 1.0 / np.where(within, s, 1.0)) / at).imag) / np.pi
    return np.where(within, found, 0.0).reshape(x.shape)


class Recovery(NamedTuple):
    """What the covariance of pooled sequences shows of the signal."""

    strength: float  #: s
    threshold: float  #: s*, which the strength must pass
    edge: float  #: the largest eigenvalue of noise
    outlier: float  #: the largest eigenvalue: beyond the edge once the strength passes s*
    alignment: float  #: squared cosine of the top eigenvector with the signal's direction

    @property
    def separates(self) -> bool:
        """Whether the signal shows."""
        return self.strength > self.threshold


def recovery(signal: float, gain: float, gamma: float, delta: float, kappa: float = 1.0) -> Recovery:
    """Outlier kappa f(s), alignment s f'(s) / (s + gamma) * r / (r + delta); r = ``signal``, alpha/kappa = ``gain``.

    >>> found = recovery(3.0, 1.0, 0.25, 0.5)
    >>> round(found.outlier, 3), round(found.alignment, 3), found.separates
    (5.056, 0.707, True)
    """
    if not (signal >= 0 and gain >= 0 and kappa > 0):
        raise InputError(f"signal and gain must not be negative and kappa positive, got {signal}, {gain}, {kappa}")
    threshold, edge = critical(gamma, delta), bulk_edges(gamma, delta)[1]
    s = gain * (signal + delta) - delta
    if s <= threshold:
        return Recovery(s, threshold, kappa * edge, kappa * edge, 0.0)
    slope = 1.0 - (gamma + delta + gamma * delta) / s**2 - 2.0 * gamma * delta / s**3
    seen = s * slope / (s + gamma) * signal / (signal + delta)
    return Recovery(s, threshold, kappa * edge, kappa * float(_f(np.array(s), gamma, delta)), seen)


def sequences_needed(signal: float, gain: float, dim: int, vocabulary: float = np.inf) -> float:
    """How many sequences it takes for the signal to separate; infinite if no number does.

    f'(s) = 0 solved for gamma: gamma = s (s^2 - delta) / (s + 2 delta + delta s), and N = dim / gamma.

    >>> round(sequences_needed(1.0, 1.0, dim=100))
    100
    """
    delta = dim / vocabulary
    _check(1.0, delta)
    s = gain * (signal + delta) - delta
    if s <= np.sqrt(delta):
        return np.inf
    return float(dim * (s + 2.0 * delta + delta * s) / (s * (s**2 - delta)))


def gain_of(weights: ArrayLike, correlation: ArrayLike) -> float:
    """alpha/kappa = w'Rw / w'w of weights (L,) and the correlation R (L, L) of the signal between positions.

    >>> gain_of([1.0, 1.0], np.ones((2, 2)))
    2.0
    """
    w, r = np.asarray(weights, float), checked_correlation(correlation)
    if w.shape != (len(r),) or not w.any():
        raise InputError(f"one weight a position is needed, not all 0: {len(r)} positions, weights of shape {w.shape}")
    return float(w @ r @ w / (w @ w))


def best_weights(correlation: ArrayLike) -> Array:
    """The top eigenvector of R, of sum 1 where its sum is not 0: no weights have a larger alpha/kappa.

    >>> best_weights(np.eye(2) + 0.5).round(6).tolist()
    [0.5, 0.5]
    """
    top = np.linalg.eigh(checked_correlation(correlation))[1][:, -1]
    total = top.sum()
    return top / total if abs(total) > 1e-9 else top


def harmonic_weights(length: int, tau: float = 0.0) -> Array:
    """What causal self-attention without parameters, averaged over positions, gives each of ``length`` tokens.

    w_j = (1/L) [e^tau / (e^tau + j - 1) + sum_(i>j) 1 / (e^tau + i - 1)]; tau = 0: (H_L - H_(j-1)) / L. Sum 1.

    >>> float(harmonic_weights(10)[0].round(7))
    0.2928968
    """
    if length < 1 or not np.isfinite(tau):
        raise InputError(f"length must be at least 1 and tau finite, got {length} and {tau}")
    share = 1.0 / (np.exp(tau) + np.arange(length))
    later = np.concatenate([np.cumsum(share[::-1])[::-1][1:], [0.0]])
    return (np.exp(tau) * share + later) / length


def checked_correlation(correlation: ArrayLike) -> Array:
    """R (L, L) as an array; raises unless it is square, finite and symmetric."""
    r = np.asarray(correlation, float)
    if r.ndim != 2 or r.shape[0] != r.shape[1] or not np.isfinite(r).all() or not np.allclose(r, r.T, atol=1e-8):
        raise InputError(f"a correlation between positions must be square, finite and symmetric, got shape {r.shape}")
    return r
