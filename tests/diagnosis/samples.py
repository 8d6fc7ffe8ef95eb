"""What the tests of this folder share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def records(**last: Any) -> list[dict[str, Any]]:
    """A run at rest, whose bags hold more than it reads."""
    base = {"bags": 400, "pcc": 0.7, "mse": 0.52, "mse_offset": 0.0, "mse_affine": 0.51, "probe_gain": 0.2}
    base |= {"probe_error": 0.02, "achievable_ceiling": 0.9, "achievable_used": 0.8, "attention_spread": 0.5}
    base |= {"effective_elements": 5.0, "gradient_ratio": 0.3}
    return [base | last] * 30


def curve(pcc: float = 0.7, mse: float = 0.52, epochs: int = 30, **held: Any) -> list[dict[str, Any]]:
    """A validation part that has come to rest; a little noise, the best epoch in the middle."""
    generator = np.random.default_rng(0)
    rows = [{"bags": 400, "pcc": pcc + 0.002 * z, "mse": mse, "mse_affine": mse} for z in generator.normal(size=epochs)]
    rows[epochs // 2] |= {"pcc": pcc, "mse": mse - 0.02, "mse_affine": mse - 0.02, **held}
    return rows


def scores(**pcc: float) -> list[dict[str, Any]]:
    """Simple models and their PCC."""
    return [{"name": name, "validation": {"pcc": value, "mse": 1.0}} for name, value in pcc.items()]


def grouped(groups: int, rows: int, within: float, between: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Target with group means; the prediction follows them and, less, the rows."""
    generator = np.random.default_rng(seed)
    level = np.repeat(generator.normal(0, between, groups), rows)
    inside = generator.normal(size=groups * rows)
    y = level + inside
    x = level + within * inside + generator.normal(0, math.sqrt(1 - within**2), groups * rows)
    return x, y, np.repeat(np.arange(groups), rows)
