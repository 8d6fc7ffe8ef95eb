"""Slow, obvious versions of the plateau theory in numpy float64: one target, no weights, no masks.

A weight is a repeated row and a mask a dropped one, so the tests of those need nothing more than this.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def pcc(y: np.ndarray, prediction: np.ndarray) -> float:
    a, b = y - y.mean(), prediction - prediction.mean()
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def attend(h: np.ndarray, z: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Predictions w.v_s of softmax attention, bag by bag."""
    out = []
    for elements, logits in zip(h, z, strict=True):
        alpha = np.exp(logits - logits.max())
        alpha = alpha / alpha.sum()
        out.append(w @ sum(a * e for a, e in zip(alpha, elements, strict=True)))
    return np.array(out)


def numeric_gradient(function, z: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a scalar function of the logits."""
    gradient = np.zeros_like(z)
    for index in np.ndindex(*z.shape):
        moved = z.copy()
        moved[index] += step
        high = function(moved)
        moved[index] -= 2 * step
        gradient[index] = (high - function(moved)) / (2 * step)
    return gradient


def gradient_ratio(y: np.ndarray, prediction: np.ndarray) -> float:
    """RMS(g^PCC)/RMS(g^MSE) from the two factors themselves, not from the closed form."""
    a, b = y - y.mean(), prediction - prediction.mean()
    g_pcc = (a / a.std() - pcc(y, prediction) * b / b.std()) / b.std()
    g_mse = 2 * (prediction - y)
    return float(np.sqrt((g_pcc**2).mean() / (g_mse**2).mean()))


def mse_terms(y: np.ndarray, prediction: np.ndarray) -> tuple[float, float, float]:
    return (
        float((prediction.mean() - y.mean()) ** 2),
        float((prediction.std() - y.std()) ** 2),
        float(2 * y.std() * prediction.std() * (1 - pcc(y, prediction))),
    )


def dispersion_and_radius(bag: np.ndarray) -> tuple[float, float]:
    distance = np.linalg.norm(bag - bag.mean(0), axis=1)
    return float(np.sqrt((distance**2).mean())), float(distance.max())


def best_pcc_in_box(low: np.ndarray, high: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """Best PCC with low <= p <= high by sequential quadratic programming from several random starts."""
    starts = [rng.uniform(low, high) for _ in range(5)] + [np.where(y > y.mean(), high, low)]
    ends = [minimize(lambda p: -pcc(y, p), s, bounds=list(zip(low, high, strict=True)), method="SLSQP") for s in starts]
    return max(-end.fun for end in ends)
