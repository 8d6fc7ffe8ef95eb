"""What the tests of this folder share."""

from __future__ import annotations

import math

import numpy as np


def records(**last: float) -> list[dict[str, float]]:
    base = {"pcc": 0.7, "mse": 1.0, "mse_offset": 0.1, "mse_scale": 0.1, "probe_gain": 0.2, "achievable_ceiling": 0.9}
    base |= {"achievable_used": 0.8, "attention_spread": 0.5, "effective_elements": 5.0, "gradient_ratio": 0.3}
    return [base | last] * 30


def grouped(groups: int, rows: int, within: float, between: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Target with group means; the prediction follows them and, less, the rows."""
    generator = np.random.default_rng(seed)
    level = np.repeat(generator.normal(0, between, groups), rows)
    inside = generator.normal(size=groups * rows)
    y = level + inside
    x = level + within * inside + generator.normal(0, math.sqrt(1 - within**2), groups * rows)
    return x, y, np.repeat(np.arange(groups), rows)
