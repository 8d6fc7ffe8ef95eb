"""Near the threshold, does the alignment of drawn sequences come up to theory as the width grows? (3 CPU minutes)

The case of the study ``spectral`` that misses its bound, R = I and r = 1.5 (gamma 1/4, delta 1/2), at more widths:
mean and standard error of the squared cosine of the top eigenvector and mu, and of the eigenvalue, beside the limit.

``python -m checks.finite_width [WIDTH ...]``
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from scipy.sparse.linalg import eigsh

from excora.theory.spectral import recovery
from excora_studies.spectral import DELTA, GAMMA, LENGTH, pooled_covariance

SIGNAL, DRAWS = 1.5, 24
WIDTHS = (200, 400, 800, 1600)


def main() -> None:
    torch.set_num_threads(1)
    limit = recovery(SIGNAL, 1.0, GAMMA, DELTA)
    print(f"limit: eigenvalue {limit.outlier:.3f}, alignment {limit.alignment:.3f}")
    print("| width | draws | eigenvalue | alignment |\n|---|---|---|---|")
    for width in map(int, sys.argv[1:] or WIDTHS):
        draws = DRAWS * max(800 // width, 1)
        found = []
        for seed in range(draws):
            covariance, direction = pooled_covariance(
                width, np.zeros(LENGTH), np.full(LENGTH, 1 / LENGTH), SIGNAL, seed
            )
            value, vector = eigsh(covariance, k=1)
            found.append((float(value[0]), float((vector[:, 0] @ direction) ** 2)))
        mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(draws)
        cells = " | ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        print(f"| {width} | {draws} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
