"""Single-location regression: can attention find the one informative token of a sequence? Closed-form risk and descent.

    X_J ~ N(sqrt(d/2) k*, g^2 I) at a random place J of L,  X_l ~ N(0, I) elsewhere,  Y = X_J.v* + N(0, e^2),  k* _|_ v*

    T(X) = sum_l erf(lambda X_l.k) X_l.v,   |k| = |v| = 1

All depends on five overlaps, the ``state`` (..., 5): kappa = k.k*, nu = v.v*, theta = v.k*, eta = k.v*, rho = k.v.
The oracle is (1, 1, 0, 0, 0). Marion, Berthier, Biau and Boyer, "Attention layers provably solve
single-location regression" (ICLR 2025); the form of :func:`erf_square_mean` by Owen's T is derived here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import erf, owens_t

from excora.errors import InputError

Array = NDArray[np.float64]

ORACLE = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
"""The state of the true directions."""

#: lambda, or lambda as a function of the step.
Sharpness = float | Callable[[int], float]


def _slope(x: Array) -> Array:
    """erf'(x); erf''(x) = -2 x erf'(x)."""
    return 2.0 / np.sqrt(np.pi) * np.exp(-(x**2))


def erf_square_mean(t: ArrayLike, g: ArrayLike) -> Array:
    """E[erf(t + g G)^2], G ~ N(0, 1): 1 - 8 OwenT(sqrt(2) t / sqrt(1 + 2 g^2), 1 / sqrt(1 + 4 g^2)).

    >>> float(erf_square_mean(0.0, 1.0).round(6)), round(float(2 / np.pi * np.arcsin(2 / 3)), 6)
    (0.464559, 0.464559)
    """
    t, g = np.asarray(t, float), np.asarray(g, float)
    return 1.0 - 8.0 * owens_t(np.sqrt(2.0) * t / np.sqrt(1.0 + 2.0 * g**2), 1.0 / np.sqrt(1.0 + 4.0 * g**2))


def _erf_square_slope(t: Array, g: float) -> Array:
    """d/dt of :func:`erf_square_mean`."""
    b = np.sqrt(1.0 + 2.0 * g**2)
    return 2.0 / b * erf(t / (b * np.sqrt(1.0 + 4.0 * g**2))) * _slope(t / b)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SingleLocation:
    """One setting: width d, length L, ``spread`` g of the informative token.

    >>> setting = SingleLocation(dim=400, length=10)
    >>> round(float(setting.excess_risk(ORACLE, 0.1)), 7), round(setting.linear_risk, 6)
    (0.1134981, 0.473684)
    """

    dim: int = 400
    length: int = 10
    spread: float = float(np.sqrt(0.5))

    def __post_init__(self) -> None:
        if self.dim < 2 or self.length < 2 or not self.spread > 0:
            raise InputError(
                f"dim and length must be at least 2 and spread positive, got {self.dim}, {self.length}, {self.spread}"
            )

    @property
    def linear_risk(self) -> float:
        """Excess risk of the best linear predictor, which must treat all places alike: g^2 - g^4 / (g^2 + L - 1)."""
        g2 = self.spread**2
        return g2 - g2**2 / (g2 + self.length - 1)

    def oracle_risk(self) -> tuple[float, float]:
        """The least excess risk of the true directions over lambda, and that lambda.

        >>> round(SingleLocation(dim=400).oracle_risk()[0], 4)
        0.0671
        """
        found = minimize_scalar(
            lambda x: float(self.excess_risk(ORACLE, np.exp(x))), bounds=(-8.0, 2.0), options={"xatol": 1e-10}
        )
        return float(found.fun), float(np.exp(found.x))

    def excess_risk(self, state: ArrayLike, sharpness: float) -> Array:
        """E (T(X) - Y)^2 - e^2 at the overlaps ``state`` (..., 5) with lambda = ``sharpness``."""
        return self._risk(np.asarray(state, float), float(sharpness))[0]

    def gradient(self, state: ArrayLike, sharpness: float) -> Array:
        """Derivatives of the risk by the five overlaps, (..., 5)."""
        return self._risk(np.asarray(state, float), float(sharpness))[1]

    def _risk(self, state: Array, lam: float) -> tuple[Array, Array]:
        kappa, nu, theta, eta, rho = np.moveaxis(state, -1, 0)
        g2, root_d, others = self.spread**2, np.sqrt(self.dim / 2.0), self.length - 1
        a2, a4 = 1.0 + 2.0 * lam**2 * g2, 1.0 + 4.0 * lam**2 * g2
        u_kappa = lam * root_d / np.sqrt(a2)  # du/dkappa
        u = u_kappa * kappa
        e, e1 = erf(u), _slope(u)
        e2, e3 = -2.0 * u * e1, (4.0 * u**2 - 2.0) * e1
        z = erf_square_mean(lam * root_d * kappa, lam * self.spread)
        z_kappa = lam * root_d * _erf_square_slope(lam * root_d * kappa, lam * self.spread)
        f, f_kappa = erf(u / np.sqrt(a4)), _slope(u / np.sqrt(a4)) * u_kappa / np.sqrt(a4)
        # With Y:  -2 [g^2 nu erf(u) + p eta theta erf'(u) + q eta rho erf''(u)]
        p, q = lam * g2 * root_d / np.sqrt(a2), lam**2 * g2**2 / a2
        # The informative token with itself: bent * (theta rho - b rho^2 kappa) erf(.) erf'(u) + s rho^2 erf'(x)
        bent, b = 4.0 * lam * g2 * root_d / np.sqrt(a2), lam**2 * g2 / a2
        s, x_kappa = 4.0 / np.sqrt(np.pi) * lam**2 * g2**2 / (a2 * np.sqrt(a4)), lam * np.sqrt(self.dim / a4)
        x1 = _slope(x_kappa * kappa)
        # The others with themselves and with each other: both of rho^2; with the informative one: 2 (L-1) C rho [...]
        own = others * 8.0 / np.pi * lam**2 / (np.sqrt(1.0 + 4.0 * lam**2) * (1.0 + 2.0 * lam**2))
        pairs = 4.0 * lam**2 * others * (self.length - 2) / (np.pi * (1.0 + 2.0 * lam**2))
        cross = 2.0 * others * 2.0 * lam / np.sqrt(np.pi * (1.0 + 2.0 * lam**2))
        r = lam * g2 / np.sqrt(a2)
        inner = theta * rho - b * rho**2 * kappa
        moved = root_d**2 * theta**2 + g2
        risk = (
            g2
            - 2.0 * (g2 * nu * e + p * eta * theta * e1 + q * eta * rho * e2)
            + moved * z
            + bent * inner * f * e1
            + s * rho**2 * x1
            + (own + pairs) * rho**2
            + cross * rho * (root_d * theta * e + r * rho * e1)
            + others * erf_square_mean(0.0, lam)
        )
        by_kappa = (
            -2.0 * u_kappa * (g2 * nu * e1 + p * eta * theta * e2 + q * eta * rho * e3)
            + moved * z_kappa
            + bent * (-b * rho**2 * f * e1 + inner * (f_kappa * e1 + f * e2 * u_kappa))
            - 2.0 * s * rho**2 * x_kappa**2 * kappa * x1
            + cross * rho * u_kappa * (root_d * theta * e1 + r * rho * e2)
        )
        by_nu = -2.0 * g2 * e
        by_theta = -2.0 * p * eta * e1 + 2.0 * root_d**2 * theta * z + bent * rho * f * e1 + cross * rho * root_d * e
        by_eta = -2.0 * (p * theta * e1 + q * rho * e2)
        by_rho = (
            -2.0 * q * eta * e2
            + bent * (theta - 2.0 * b * rho * kappa) * f * e1
            + 2.0 * rho * (s * x1 + own + pairs)
            + cross * (root_d * theta * e + 2.0 * r * rho * e1)
        )
        return risk, np.stack([by_kappa, by_nu, by_theta, by_eta, by_rho], -1)

    def start(self, runs: int, *, seed: int, manifold: bool = False) -> Array:
        """States (runs, 5) of directions drawn from the sphere, or from the manifold theta = eta = rho = 0."""
        rng = np.random.default_rng(seed)
        k, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.normal(size=(2, runs, self.dim)))
        state = np.stack([k[:, 0], v[:, 1], v[:, 0], k[:, 1], (k * v).sum(1)], -1)
        if manifold:
            state[:, 2:] = 0.0
        return state

    def descend(self, state: Array, *, steps: int, rate: float, sharpness: Sharpness, every: int = 0) -> Array:
        """Projected gradient descent of both directions on their spheres, exactly, in the five overlaps.

        The state after the last step, or (records, runs, 5) with the start and every ``every``-th state.

        >>> setting = SingleLocation(dim=80)
        >>> end = setting.descend(setting.start(3, seed=0, manifold=True), steps=2000, rate=0.02, sharpness=0.1)
        >>> bool((end[:, 0] * end[:, 1] > 0).all())
        True
        """
        state, kept = np.array(state, float), [np.array(state, float)]
        for step in range(steps):
            lam = sharpness(step) if callable(sharpness) else sharpness
            state = _stepped(state, self._risk(state, lam)[1], rate)
            if every and (step + 1) % every == 0:
                kept.append(state)
        return np.stack(kept) if every else state

    def descend_on_samples(
        self,
        state: Array,
        *,
        steps: int,
        rate: float,
        sharpness: Sharpness,
        batch: int = 5,
        noise: float = 0.1,
        rng: np.random.Generator,
    ) -> Array:
        """:meth:`descend` with the gradient of ``batch`` new sequences a step, labels with noise e = ``noise``.

        Exact in law without a vector of length d: a gradient is sum_l c_l X_l, whose part across k*, v*, k and v is
        normal given the rest. Needs dim >= 6. The state after the last step, (runs, 5).

        >>> setting, rng = SingleLocation(dim=80), np.random.default_rng(0)
        >>> end = setting.descend_on_samples(setting.start(2, seed=0), steps=9, rate=1e-3, sharpness=2.0, rng=rng)
        >>> end.shape
        (2, 5)
        """
        if self.dim < 6 or batch < 1 or not noise >= 0:
            raise InputError(
                f"dim must be at least 6, batch at least 1 and noise not negative, got {self.dim}, {batch} and {noise}"
            )
        state = np.array(state, float)
        for step in range(steps):
            lam = sharpness(step) if callable(sharpness) else sharpness
            state = self._sampled_step(state, lam, rate, batch, noise, rng)
        return state

    def _sampled_step(
        self, state: Array, lam: float, a: float, batch: int, noise: float, rng: np.random.Generator
    ) -> Array:
        kv = _in_their_span(state)
        runs, size = len(state), np.ones(self.length)
        size[0] = self.spread  # the places are alike, so the informative token may stand first
        size = np.tile(size, batch)
        x = rng.standard_normal((runs, batch * self.length, 4)) * size[:, None]
        x[:, :: self.length, 0] += np.sqrt(self.dim / 2.0)
        xk, xv = np.moveaxis(x @ kv.swapaxes(1, 2), -1, 0)
        weight = erf(lam * xk)
        error = (weight * xv).reshape(runs, batch, -1).sum(-1) - x[:, :: self.length, 1]
        error -= noise * rng.standard_normal((runs, batch))
        # d/dk and d/dv of mean_b (T - Y)^2 = sum_bl c_bl X_bl; c is (runs, 2, batch * length)
        by_t = np.repeat(2.0 / batch * error, self.length, 1)
        c = np.stack([by_t * lam * _slope(lam * xk) * xv, by_t * weight], 1)
        g, spread = c @ x, c * size
        across = _wishart(spread @ spread.swapaxes(1, 2), self.dim - 4, rng) * a**2
        k, v = np.moveaxis((1.0 + a * (kv * g).sum(2, keepdims=True)) * kv - a * g, 1, 0)
        k_length, v_length = np.sqrt((k**2).sum(1) + across[:, 0, 0]), np.sqrt((v**2).sum(1) + across[:, 1, 1])
        rho = ((k * v).sum(1) + across[:, 0, 1]) / (k_length * v_length)
        return np.stack([k[:, 0] / k_length, v[:, 1] / v_length, v[:, 0] / v_length, k[:, 1] / k_length, rho], -1)


def _in_their_span(state: Array) -> Array:
    """k and v, (runs, 2, 4), in an orthonormal basis k*, v*, and what k and v have beyond these."""
    kappa, nu, theta, eta, rho = np.moveaxis(state, -1, 0)
    k3 = np.sqrt(np.maximum(1.0 - kappa**2 - eta**2, 1e-30))
    v3 = (rho - kappa * theta - eta * nu) / k3
    v4 = np.sqrt(np.maximum(1.0 - theta**2 - nu**2 - v3**2, 0.0))
    return np.stack([kappa, eta, k3, np.zeros_like(k3), theta, nu, v3, v4], -1).reshape(-1, 2, 4)


def _wishart(scale: Array, degrees: int, rng: np.random.Generator) -> Array:
    """Draws (runs, 2, 2) of A'A for ``degrees`` rows N(0, scale) of A, by Bartlett's decomposition."""
    low = np.zeros_like(scale)
    low[:, 0, 0] = np.sqrt(scale[:, 0, 0])
    low[:, 1, 0] = scale[:, 0, 1] / np.maximum(low[:, 0, 0], 1e-300)
    low[:, 1, 1] = np.sqrt(np.maximum(scale[:, 1, 1] - low[:, 1, 0] ** 2, 0.0))
    drawn = np.zeros_like(scale)
    drawn[:, 0, 0] = np.sqrt(rng.chisquare(degrees, len(scale)))
    drawn[:, 1, 0] = rng.standard_normal(len(scale))
    drawn[:, 1, 1] = np.sqrt(rng.chisquare(degrees - 1, len(scale)))
    root = low @ drawn
    return root @ root.swapaxes(1, 2)


def _stepped(state: Array, gradient: Array, a: float) -> Array:
    """k <- normalised k - a (I - k k') g_k and v alike, g_k = R_kappa k* + R_eta v* + R_rho v, in the overlaps.

    With c = k.g_k the new k is (1 + a c) k - a g_k, of squared length 1 + a^2 (|g_k|^2 - c^2).
    """
    kappa, nu, theta, eta, rho = np.moveaxis(state, -1, 0)
    r_kappa, r_nu, r_theta, r_eta, r_rho = np.moveaxis(gradient, -1, 0)
    ck, cv = kappa * r_kappa + eta * r_eta + rho * r_rho, nu * r_nu + theta * r_theta + rho * r_rho
    gk = r_kappa**2 + r_eta**2 + r_rho**2 + 2.0 * r_rho * (r_kappa * theta + r_eta * nu)
    gv = r_nu**2 + r_theta**2 + r_rho**2 + 2.0 * r_rho * (r_nu * eta + r_theta * kappa)
    k_length = np.sqrt(1.0 + a**2 * np.maximum(gk - ck**2, 0.0))
    v_length = np.sqrt(1.0 + a**2 * np.maximum(gv - cv**2, 0.0))
    k_keep, v_keep = 1.0 + a * ck, 1.0 + a * cv
    k_gv, v_gk = r_nu * eta + r_theta * kappa + r_rho, r_kappa * theta + r_eta * nu + r_rho
    gk_gv = r_kappa * (r_theta + r_rho * kappa) + r_eta * (r_nu + r_rho * eta) + r_rho * cv
    return np.stack(
        [
            (k_keep * kappa - a * (r_kappa + r_rho * theta)) / k_length,
            (v_keep * nu - a * (r_nu + r_rho * eta)) / v_length,
            (v_keep * theta - a * (r_theta + r_rho * kappa)) / v_length,
            (k_keep * eta - a * (r_eta + r_rho * nu)) / k_length,
            (k_keep * v_keep * rho - a * k_keep * k_gv - a * v_keep * v_gk + a**2 * gk_gv) / (k_length * v_length),
        ],
        -1,
    )
