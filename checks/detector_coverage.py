"""How often does the detector's 95 % interval miss the change of a curve that does not change? (5 % is asked for.)

``python -m checks.detector_coverage [CURVES]``: flat curves with noise of a given lag-one correlation.
"""

from __future__ import annotations

import sys

import numpy as np

from excora.diagnosis.trend import trend

LENGTHS = (10, 20, 40, 80)
CORRELATIONS = (0.0, 0.3, 0.5, 0.8)


def curve(generator: np.random.Generator, length: int, correlation: float) -> np.ndarray:
    """Stationary noise of unit variance with that lag-one correlation."""
    steps = generator.normal(size=length) * np.sqrt(1 - correlation**2)
    values = [generator.normal()]
    for step in steps[1:]:
        values.append(correlation * values[-1] + step)
    return np.array(values)


def main(curves: int) -> None:
    generator = np.random.default_rng(0)
    for length in LENGTHS:
        shares = []
        for correlation in CORRELATIONS:
            series = [curve(generator, length, correlation) for _ in range(curves)]
            found = [trend(one, confidence=0.95, resamples=500, generator=generator) for one in series]
            shares.append(sum(not one.low <= 0 <= one.high for one in found) / curves)
        print(f"{length} epochs:", *(f"{r}: {share:.0%}" for r, share in zip(CORRELATIONS, shares, strict=True)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
