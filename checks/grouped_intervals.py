"""Intervals of the default for tables where rows of a group are alike and new rows are of new groups.

A label is a function of the group's features, a random part of the group, a slope within groups, and noise. ``apart``
is how far rows of a group are from each other, in units of how far groups are. Fitted with ``groups``; 90 % are asked.

``python -m checks.grouped_intervals``; two minutes of one core.
"""

from __future__ import annotations

import numpy as np
import torch

from excora import TabularRegressor

DESIGNS = ((20, 20, 40, 0.1), (40, 10, 10, 0.3), (15, 30, 8, 1.0), (30, 10, 5, 0.5), (100, 5, 20, 0.5))
SEEDS, NEW, LEVEL = 4, 100, 0.9


def held(groups: int, rows: int, columns: int, apart: float, seed: int) -> tuple[float, float]:
    """The share of new labels within the interval, and the squared error in units of the variance."""
    draw, count = np.random.default_rng(seed), groups + NEW
    group = np.repeat(np.arange(count), rows)
    centre = draw.standard_normal((count, columns))
    within = draw.standard_normal((len(group), columns))
    level = centre[:, 0] + draw.standard_normal(count)
    x = centre[group] + apart * within
    y = level[group] + 0.5 * within[:, 1] + 0.3 * draw.standard_normal(len(group))
    seen, new = group < groups, np.flatnonzero(group >= groups)[:: max(rows // 4, 1)]
    model = TabularRegressor(random_state=0).fit(x[seen], y[seen], groups=group[seen])
    low, high = model.predict_interval(x[new], LEVEL).T
    wrong = np.square(model.predict(x[new]) - y[new]).mean() / y[new].var()
    return float(((low <= y[new]) & (y[new] <= high)).mean()), float(wrong)


def main() -> None:
    torch.set_num_threads(1)
    print("| groups x rows, columns, apart | within 90 % | MSE / variance |\n|---|---|---|")
    for design in DESIGNS:
        coverage, wrong = np.mean([held(*design, seed=seed) for seed in range(SEEDS)], 0)
        groups, rows, columns, apart = design
        print(f"| {groups} x {rows}, {columns}, {apart:g} | {coverage:.3f} | {wrong:.2f} |", flush=True)


if __name__ == "__main__":
    main()
