"""In-context linear estimation: what linear attention and a gated convolution can make of n labelled examples.

    x_i ~ N(0, Sx),  y_i = beta_i.x_i + N(0, s2),  beta ~ N(0, Sb)
    prediction of a query x:  x' W sum_i omega_i y_i x_i

Linear attention has omega = 1; a state-space layer such as H3 has omega_i free, one a lag. W is a preconditioned step
of gradient descent. Derived here for the setting of Li, Rawat and Oymak, "Fine-grained analysis of in-context linear
estimation" (NeurIPS 2024, arXiv 2407.10005), and checked by simulation. Risks include the label's own noise s2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from excora.errors import InputError
from excora.theory.spectral import checked_correlation

Array = NDArray[np.float64]


def _check(examples: int, noise: float) -> None:
    if examples < 0 or not noise >= 0:
        raise InputError(f"the number of examples and the noise must not be negative, got {examples} and {noise}")


def _spectrum(features: Array, task: Array) -> tuple[Array, Array, Array]:
    """Root of Sx, and eigenvalues and vectors of Lam = Sx^(1/2) Sb Sx^(1/2)."""
    sx, sb = checked_correlation(features), checked_correlation(task)
    if sx.shape != sb.shape:
        raise InputError(f"features and task must have one width, got {sx.shape} and {sb.shape}")
    values, vectors = np.linalg.eigh(sx)
    if values.min() < -1e-10 * max(values.max(), 1.0) or np.linalg.eigvalsh(sb).min() < -1e-10:
        raise InputError("a covariance must have no negative eigenvalue")
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    lam, basis = np.linalg.eigh(root @ sb @ root)
    return root, np.maximum(lam, 0.0), basis


def best_preconditioner(features: ArrayLike, task: ArrayLike, examples: int, noise: float) -> Array:
    """W with Sx^(1/2) W Sx^(1/2) = Lam ((n + 1) Lam + (tr Lam + s2) I)^-1; isotropic: I / (n + d + 1 + s2).

    >>> best_preconditioner(np.eye(2), np.eye(2), examples=10, noise=0.0).round(6).tolist()
    [[0.076923, 0.0], [0.0, 0.076923]]
    """
    _check(examples, noise)
    root, lam, basis = _spectrum(np.asarray(features, float), np.asarray(task, float))
    inner = (basis * (lam / np.maximum((examples + 1) * lam + lam.sum() + noise, np.finfo(float).tiny))) @ basis.T
    back = np.linalg.pinv(root)
    return back @ inner @ back


def in_context_risk(
    features: ArrayLike, task: ArrayLike, examples: int, noise: float, rank: int | None = None
) -> float:
    """tr Lam + s2 - n sum_i l_i^2 / ((n + 1) l_i + tr Lam + s2), over the ``rank`` largest l_i.

    >>> round(in_context_risk(np.eye(10), np.eye(10), examples=10, noise=0.25), 4)
    5.5441
    """
    _check(examples, noise)
    lam = _spectrum(np.asarray(features, float), np.asarray(task, float))[1][::-1]
    total = lam.sum()
    used = lam[:rank]
    explained = used**2 / np.maximum((examples + 1) * used + total + noise, np.finfo(float).tiny)
    return float(total + noise - examples * explained.sum())


class Drift(NamedTuple):
    """What the order of the examples is worth when the task drifts."""

    weights: Array  #: (n,): the best omega
    weighted: float  #: risk with it
    plain: float  #: risk of linear attention, omega constant


def drift(similarity: ArrayLike, to_query: ArrayLike, dim: int, noise: float) -> Drift:
    """The best weights of n examples whose tasks have E[b_i b_j'] = C_ij I and E[b_i b'] = r_i I, isotropic features.

    With M = C + (d + 1 + s2) I:  omega = M^-1 r,  risk d + s2 - d r'M^-1 r;  constant: d + s2 - d (1'r)^2 / (1'M1).

    >>> lag = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    >>> found = drift(0.9**lag, 0.9 ** np.arange(40, 0, -1), dim=10, noise=0.01)
    >>> round(found.plain, 4), round(found.weighted, 4)
    (9.2415, 7.8101)
    """
    c, r = checked_correlation(similarity), np.asarray(to_query, float)
    if r.shape != (len(c),) or dim < 1:
        raise InputError(f"one similarity to the query an example is needed, {len(c)}, got {r.shape}; dim at least 1")
    _check(len(c), noise)
    m = c + (dim + 1 + noise) * np.eye(len(c))
    weights = np.linalg.solve(m, r)
    return Drift(weights, float(dim + noise - dim * (r @ weights)), float(dim + noise - dim * r.sum() ** 2 / m.sum()))


def decay_weights(ages: ArrayLike, memory: float, dim: int, noise: float) -> Array:
    """Weights of examples of these ages (n,) when the similarity of two tasks is exp(-|difference of age| / memory).

    What a retrieval model may use on rows in time order; of mean 1.

    >>> w = decay_weights([1.0, 2.0, 8.0], memory=3.0, dim=5, noise=0.1)
    >>> bool(w[0] > w[1] > w[2]), float(w.mean().round(6))
    (True, 1.0)
    """
    ages = np.asarray(ages, float)
    if ages.ndim != 1 or not np.isfinite(ages).all() or (ages < 0).any() or not memory > 0:
        raise InputError("ages must be finite and not negative, of shape (n,), and memory positive")
    weights = drift(np.exp(-np.abs(np.subtract.outer(ages, ages)) / memory), np.exp(-ages / memory), dim, noise).weights
    return weights / weights.mean()


def retrieved_risk(alignment: float, examples: int, dim: int, noise: float) -> tuple[float, float]:
    """Risk and best step when retrieval makes examples like the query: x_i = a x + sqrt(1 - a^2) g, isotropic.

    The prediction is step * x'v with v = sum_i y_i x_i. With A = E (x'x_i)^2 and B = E (x'v)^2:

        step = n A / B,   risk = d + s2 - n^2 A^2 / B

    Derived here from the moments of x'x and checked by simulation. kappa = a^2 d + 1 times as many examples without
    retrieval, the abstract's rule, is its leading term.

    >>> risk, _ = retrieved_risk(0.0, 10, dim=10, noise=0.25)
    >>> round(risk, 4)
    5.5441
    """
    if not 0 <= alignment <= 1 or dim < 1:
        raise InputError(f"alignment must lie between 0 and 1 and dim be at least 1, got {alignment} and {dim}")
    _check(examples, noise)
    a2, b2, d, n = alignment**2, 1.0 - alignment**2, float(dim), float(examples)
    # Moments of q = x'x (chi-square of d): E q = d, E q^2 = d (d + 2), E q^3 = d (d + 2)(d + 4).
    q1, q2, q3 = d, d * (d + 2), d * (d + 2) * (d + 4)
    once = a2 * q2 + b2 * q1  # E (x'x_i)^2 = E x'x_i x_i'x
    # |x_i|^2 (x'x_i)^2 with x_i = a x + b g, u = x'g: |x_i|^2 = a2 q + 2ab u + b2 |g|^2, (x'x_i)^2 = (a q + b u)^2
    # E u^2 = q, E |g|^2 = d, E |g|^2 u^2 = (d + 2) q, all given x
    twice = (
        a2 * (a2 * q3 + b2 * q2)  # a2 q (a2 q^2 + b2 u^2)
        + 4 * a2 * b2 * q2  # 2ab u * 2ab q u
        + b2 * (a2 * d * q2 + b2 * (d + 2) * q1)  # b2 |g|^2 (a2 q^2 + b2 u^2)
    )
    # Two examples i, j: E[x'x_i x_i'x_j x_j'x] = E[x'(a2 xx' + b2 I)^2 x] = a4 q3 + 2 a2 b2 q2 + b2^2 q1
    apart = a2**2 * q3 + 2 * a2 * b2 * q2 + b2**2 * q1
    size = n * (twice + noise * once) + n * (n - 1) * apart
    step = n * once / size if n else 0.0
    return float(d + noise - (n * once) ** 2 / size if n else d + noise), float(step)
