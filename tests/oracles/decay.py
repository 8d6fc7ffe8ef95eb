"""Slow, obvious numpy version of singular-value decay: eigenvalues of the kernel of cosines, bag by bag."""

from __future__ import annotations

import numpy as np


def kernel_shares(h: np.ndarray) -> np.ndarray:
    """Eigenvalues of K_ij = cos(h_i, h_j) over their sum, largest first."""
    kernel = np.array([[a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for b in h] for a in h])
    values = np.sort(np.linalg.eigvalsh(kernel))[::-1].clip(0)
    return values / values.sum()


def directions(shares: np.ndarray, energy: float = 0.9) -> int:
    """The fewest whose shares reach ``energy``."""
    total, count = 0.0, 0
    while total < energy - 1e-9:
        total += shares[count]
        count += 1
    return count
