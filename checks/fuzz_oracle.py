"""A pool's formulas in numpy float64 over a box of bags, with derivatives, and how far rounding may move each.

Every case also holds some of its bags against :mod:`tests.oracles.pooling`, which is slow and obvious. Bounds are of
first order, with ``unit`` = 64 machine epsilons (a sum of some hundred products, twice):

- a logit z may be off by unit sum_j |h_j w_j|, the exponent u = z / tau by that over tau and by unit |u| for tau;
- a weight by a factor exp(2 |du|), so the value by gamma sum_i |d alpha_i| ||h_i - mu|| + unit (1 + gamma) ||h||, and
  by ||a - mu|| |d gamma|, gamma's own error being found by moving its arguments by their own;
- a derivative by the same relative errors, of the sum of the absolute values of its terms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from excora import MeanPool

Array = NDArray[np.float64]
EXACT = 1e-14  # what float64 itself may be off by, of the size of a bag


class Dual(NamedTuple):
    """A number, its derivative along a direction, and how far rounding may move either."""

    value: Any
    tangent: Any
    error: Any = 0.0
    tangent_error: Any = 0.0


class Found(NamedTuple):
    """What a pool gives, by bag; ``unknown`` is how far an exponent of the softmax may be off."""

    value: Dual
    weights: Dual
    dispersion: Array
    unknown: Array
    logits: Array
    gamma: Any
    tau: Any


class Oracle:
    """A pool's formulas in numpy, with their derivatives along a direction and the bounds of rounding."""

    def __init__(self, pool: torch.nn.Module, unit: float, motion: dict[str, Array]) -> None:
        self.pool, self.unit = pool, unit
        self.p = {name: p.detach().double().numpy() for name, p in pool.named_parameters()}
        self.t = {name: motion.get(name, np.zeros_like(p)) for name, p in self.p.items()}

    def linear(self, x: Dual, weight: str, bias: str, scale: float = 1.0) -> Dual:
        """x.W' scale + b: derivative by the product rule, error by the sum of absolute values."""
        w, dw = np.atleast_2d(self.p[weight]).T * scale, np.atleast_2d(self.t[weight]).T * scale
        size = np.abs(x.value) @ np.abs(w) + np.abs(self.p[bias])
        moved = np.abs(x.tangent) @ np.abs(w) + np.abs(x.value) @ np.abs(dw) + np.abs(self.t[bias])
        return Dual(
            x.value @ w + self.p[bias],
            x.tangent @ w + x.value @ dw + self.t[bias],
            self.unit * size + x.error @ np.abs(w),
            self.unit * moved + x.tangent_error @ np.abs(w),
        )

    def logits(self, h: Dual) -> Dual:
        """One a row."""
        kind = type(self.pool.scorer).__name__
        if kind == "GatedScorer":
            content = self.through(
                np.tanh, lambda x: 1 / np.cosh(np.clip(x, -300, 300)) ** 2, self.linear(h, *names("content"))
            )
            gate = self.through(_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x), self.linear(h, *names("gate")))
            z = self.linear(_product(content, gate), *names("out"))
        else:
            z = self.linear(h, "scorer.weight", "scorer.bias", getattr(self.pool.scorer, "scale", 1.0))
        return Dual(*(part[..., 0] for part in z))

    def through(self, function: Any, slope: Any, x: Dual, top: float = 1.0) -> Dual:
        """f(x) and f'(x) x'; errors by moving x by its own. f is at most ``top``, and f' is computed from f."""
        value, tangent = function(x.value), slope(x.value) * x.tangent
        ends = [x.value + x.error, x.value - x.error]
        error = np.max([np.abs(function(end) - value) for end in ends], 0)
        slopes = np.max([np.abs(slope(end) - slope(x.value)) for end in ends], 0)
        moved = np.max([slope(end) for end in (*ends, x.value)], 0) * x.tangent_error
        return Dual(
            value, tangent, error + self.unit * np.abs(value), (slopes + self.unit * top) * np.abs(x.tangent) + moved
        )

    def gamma(self, mean: Dual) -> Dual:
        """The gain; 1 without one."""
        gain = getattr(getattr(self.pool, "extrapolation", None), "gain", None)
        if gain is None:
            return _ones(len(mean.value))
        x = self.linear(mean, *names("hidden", "extrapolation.gain"))
        if gain.form == "free":
            x = self.through(np.tanh, lambda x: 1 / np.cosh(np.clip(x, -300, 300)) ** 2, x)
        else:
            x = self.through(lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0, x)
        raw = Dual(*(part[..., 0] for part in self.linear(x, *names("out", "extrapolation.gain"))))
        cap, shift = gain.cap, np.log(gain.cap - 1)
        if gain.form == "free":
            return self.through(
                lambda r: cap * _sigmoid(r - shift), lambda r: cap * _sigmoid(r - shift) * _sigmoid(shift - r), raw, cap
            )
        return self.through(
            lambda r: np.minimum(1 + np.logaddexp(0, r), cap),
            lambda r: _sigmoid(r) * (np.logaddexp(0, r) < cap - 1),
            raw,
        )

    def tau(self, sigma: Dual) -> Dual:
        """The temperature; 1 without a law. ``sigma.tangent_error`` is the size of the terms of its derivative."""
        extrapolation = getattr(self.pool, "extrapolation", None)
        law = None if extrapolation is None else extrapolation.temperature
        if law is None:
            return _ones(len(sigma.value))
        spread, moved = sigma.value / extrapolation.divisor, sigma.tangent / extrapolation.divisor
        if law.fixed is not None:
            value = law.fixed[0] + law.fixed[1] * spread
            slack = self.unit * law.fixed[1] * sigma.tangent_error / extrapolation.divisor
            return Dual(value, law.fixed[1] * moved, self.unit * value, slack)
        base, slope = (self.p[f"extrapolation.temperature.{x}"][0] for x in ("log_base", "slope"))
        d_base, d_slope = (self.t[f"extrapolation.temperature.{x}"][0] for x in ("log_base", "slope"))
        value = np.exp(base + slope * np.log1p(spread))
        grown = np.log1p(spread)
        tangent = d_base + d_slope * grown + slope * moved / (1 + spread)
        terms = (
            abs(d_base) + abs(d_slope) * grown + abs(slope) * sigma.tangent_error / extrapolation.divisor / (1 + spread)
        )
        factor = self.unit * (1 + abs(base) + abs(slope) * grown)
        return Dual(value, value * tangent, factor * value, 2 * factor * value * terms)

    def __call__(self, h: Array, real: NDArray[np.bool_], motion: Array) -> Found:
        """Bags h (bags, elements, dim), zero in padding, as is ``motion``, the direction of the derivatives."""
        count, size = np.maximum(real.sum(1), 1), np.abs(h).max(1, initial=0.0)
        mean = Dual(
            h.sum(1) / count[:, None],
            motion.sum(1) / count[:, None],
            self.unit * size,
            self.unit * np.abs(motion).max(1, initial=0.0),
        )
        apart = np.where(real[..., None], h - mean.value[:, None], 0.0)
        drift = np.where(real[..., None], motion - mean.tangent[:, None], 0.0)
        sigma = np.sqrt((apart**2).sum((1, 2)) / count)
        sigma = np.where(sigma > EXACT * np.linalg.norm(size, axis=1), sigma, 0.0)
        terms = [
            x.sum((1, 2)) / (count * np.where(sigma > 0, sigma, 1.0)) for x in (apart * drift, np.abs(apart * drift))
        ]
        sigma = Dual(sigma, *(np.where(sigma > 0, x, 0.0) for x in (terms[0], 0.0, terms[1])))
        if isinstance(self.pool, MeanPool):
            weights, none = real / count[:, None], np.zeros(real.shape)
            return Found(
                mean, Dual(weights, none, self.unit * weights, none), sigma.value, np.zeros(len(h)), weights, 1.0, 1.0
            )
        z = self.logits(Dual(h, motion, np.zeros_like(h), np.zeros_like(h)))
        gamma, tau = self.gamma(mean), self.tau(sigma)
        weights, unknown = self.softmax(z, Dual(*(part[:, None] for part in tau)), real)
        value = self.mixed(np.abs(h), motion, apart, drift, mean, Dual(*(part[:, None] for part in gamma)), weights)
        return Found(value, weights, sigma.value, unknown, z.value, gamma.value, tau.value)

    def softmax(self, z: Dual, tau: Dual, real: NDArray[np.bool_]) -> tuple[Dual, Array]:
        """alpha = softmax(z / tau), and how far an exponent may be off."""
        top = np.max(np.where(real, z.value, -np.inf), 1, keepdims=True, initial=-np.inf)
        gap = np.where(real, top - z.value, 0.0)
        gap = np.where(np.isfinite(gap), gap, 0.0)
        alpha = np.where(real, np.exp(-gap / tau.value), 0.0)
        alpha = alpha / np.maximum(alpha.sum(1, keepdims=True), 1e-300)
        matters = real & (gap / tau.value < 200)  # a weight of exp(-200) stays nothing
        du = np.where(matters, z.error / tau.value + gap / tau.value * (tau.error / tau.value + self.unit), 0.0)
        unknown = du.max(1, initial=0.0)
        loose = np.expm1(np.minimum(2 * unknown, 50.0))[:, None] + self.unit
        parts = np.where(matters, np.abs(z.tangent) / tau.value + gap * np.abs(tau.tangent) / tau.value**2, 0.0)
        u = np.where(matters, z.tangent / tau.value + gap * tau.tangent / tau.value**2, 0.0)
        error = loose * parts + np.where(
            matters, z.tangent_error / tau.value + gap * tau.tangent_error / tau.value**2, 0.0
        )
        error = error + 2 * loose * parts
        tangent = alpha * (u - (alpha * u).sum(1, keepdims=True))
        return Dual(alpha, tangent, alpha * loose, alpha * (error + (alpha * error).sum(1, keepdims=True))), unknown

    def mixed(self, h: Array, motion: Array, apart: Array, drift: Array, mean: Dual, gamma: Dual, w: Dual) -> Dual:
        """v = mu + gamma sum_i alpha_i (h_i - mu); ``h`` without signs."""

        def over(weights: Array, elements: Array) -> Array:
            return (weights[..., None] * elements).sum(1)

        residual, moved = over(w.value, apart), over(w.tangent, apart) + over(w.value, drift)
        value = mean.value + gamma.value * residual
        tangent = mean.tangent + gamma.tangent * residual + gamma.value * moved
        size, slack = self.unit * h.max(1, initial=0.0), over(w.error, np.abs(apart))
        error = (1 + gamma.value) * size + gamma.error * np.abs(residual) + gamma.value * slack
        off = self.unit * (1 + gamma.value) * np.abs(motion).max(1, initial=0.0) + gamma.tangent_error * np.abs(
            residual
        )
        off = off + np.abs(gamma.tangent) * (slack + size) + gamma.error * (np.abs(moved) + np.abs(mean.tangent))
        lost = over(w.tangent_error, np.abs(apart)) + over(w.error, np.abs(drift))
        off = off + gamma.value * (lost + self.unit * over(np.abs(w.tangent), np.abs(apart)))
        return Dual(value, tangent, error, off)


def _ones(bags: int) -> Dual:
    return Dual(np.ones(bags), np.zeros(bags), np.zeros(bags), np.zeros(bags))


def names(layer: str, prefix: str = "scorer") -> tuple[str, str]:
    return f"{prefix}.{layer}.weight", f"{prefix}.{layer}.bias"


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def _product(a: Dual, b: Dual) -> Dual:
    error = np.abs(a.value) * b.error + np.abs(b.value) * a.error
    moved = np.abs(a.value) * b.tangent_error + np.abs(b.value) * a.tangent_error
    moved = moved + np.abs(a.tangent) * b.error + np.abs(b.tangent) * a.error
    return Dual(a.value * b.value, a.tangent * b.value + a.value * b.tangent, error, moved)
