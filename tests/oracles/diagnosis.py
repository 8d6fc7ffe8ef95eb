"""Slow, obvious numpy versions of the monitor's record, the trend and the group correlations."""

from __future__ import annotations

import numpy as np


def pcc(x: np.ndarray, y: np.ndarray) -> float:
    a, b = x - x.mean(), y - y.mean()
    return float((a * b).mean() / (x.std() * y.std()))


def record(
    x: np.ndarray, y: np.ndarray, bags: list[np.ndarray], weights: list[np.ndarray], w: np.ndarray, c: float
) -> dict:
    """All figures of one epoch for a linear head w.v + c, bag by bag; bags are (n_s, dim), weights (n_s,)."""
    rho, mse = pcc(x, y), ((x - y) ** 2).mean()
    dispersions, radii, means, effective, spread, cosines = [], [], [], [], [], []
    for h, alpha in zip(bags, weights, strict=True):
        mu = h.mean(0)
        distances = [np.linalg.norm(row - mu) for row in h]
        dispersions.append(np.sqrt(np.mean(np.square(distances))))
        radii.append(max(distances))
        means.append(w @ mu + c)
        entropy = -sum(a * np.log(a) for a in alpha if a > 0)
        effective.append(np.exp(entropy))
        if len(alpha) > 1:
            spread.append((np.exp(entropy) - 1) / (len(alpha) - 1))
            unit = [row / np.linalg.norm(row) for row in h]
            cosines.append(np.mean([unit[i] @ unit[j] for j in range(len(h)) for i in range(j)]))
    ybar, rms = np.array(means), np.sqrt(np.mean(np.square(radii)))
    sigma_0, norm = ybar.std(), np.linalg.norm(w)
    hull = pcc(ybar, y) + 2 * rms / (sigma_0 / norm - rms) if rms < sigma_0 / norm else None
    return {
        "bags": len(x),
        "pcc": rho,
        "mse": mse,
        "mse_offset": (x.mean() - y.mean()) ** 2,
        "mse_scale": (x.std() - y.std()) ** 2,
        "mse_correlation": 2 * x.std() * y.std() * (1 - rho),
        "mse_affine": min(
            ((slope * x + (y - slope * x).mean() - y) ** 2).mean() for slope in [rho * y.std() / x.std()]
        ),
        "sigma_ratio": x.std() / y.std(),
        "gradient_ratio": np.sqrt(1 - rho**2) / (2 * x.std() * np.sqrt(mse)),
        "gradient_ratio_bound": 1 / (2 * np.sqrt(y.std()) * x.std() ** 1.5) if rho >= 0 else None,
        "dispersion": np.sqrt(np.mean(np.square(dispersions))),
        "radius": rms,
        "mean_cosine": np.mean(cosines),
        "mean_pcc": pcc(ybar, y),
        "hull_ceiling": hull,
        "hull_used": None if hull is None else rho / hull,
        "effective_elements": np.mean(effective),
        "attention_spread": np.mean(spread),
    }


def change(series: np.ndarray) -> float:
    """Rise of the least-squares line from the first to the last point."""
    slope, _ = np.polyfit(np.arange(len(series)), series, 1)
    return float(slope * (len(series) - 1))


def out_of_fold(x: np.ndarray, y: np.ndarray, folds: int, ridge: float) -> np.ndarray:
    """Ridge predictions with an intercept column, penalty ridge * n on every coefficient, each row from other folds."""
    x = np.column_stack([x, np.ones(len(x))])
    fitted = np.empty(len(y))
    for k in range(folds):
        out = np.arange(len(y)) % folds == k
        a = x[~out]
        fitted[out] = x[out] @ np.linalg.solve(a.T @ a + ridge * len(y) * np.eye(x.shape[1]), a.T @ y[~out])
    return fitted
