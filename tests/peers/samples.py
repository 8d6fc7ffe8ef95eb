"""Samples that something can be learned from."""

from __future__ import annotations

import numpy as np

from excora.peers import Part


def parts(
    *, n: int = 60, columns: int = 4, targets: int = 1, weighted: bool = False, unknown: float = 0.0, seed: int = 0
) -> tuple[Part, Part, np.ndarray]:
    """Training and validation part, and features to predict; a share of the labels is ``unknown``."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(3 * n, columns)) * np.linspace(0.2, 3, columns) + 1.0
    y = np.sin(x[:, :targets]) + x[:, 1 : 1 + targets] + 0.3 * generator.normal(size=(3 * n, targets))
    weight = generator.uniform(0.1, 2, 3 * n) if weighted else None
    y = np.where(generator.uniform(size=y.shape) < unknown, np.nan, y)

    def part(index: slice) -> Part:
        return Part(x[index], y[index], None if weight is None else weight[index])

    return part(slice(n)), part(slice(n, 2 * n)), x[2 * n :]
