"""The sensitivity of columns against differences of the kernel regression itself."""

from __future__ import annotations

import numpy as np
import torch

from excora.models.parts.neighbours import Excluded, learn_metric
from excora.models.parts.sensitivity import column_sensitivity


def rows(columns, n=120):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, columns, generator=generator, dtype=torch.float64)
    return x, torch.stack([torch.sin(2 * x[:, 0]), 0.3 * x[:, 1]], 1)


def test_it_is_the_slope_of_a_kernel_regression_over_the_rows_that_a_row_may_see():
    x, y = rows(3)
    found = column_sensitivity(x, y, lambda a, b: a == b, queries=120, candidates=120)
    step, slopes = 1e-5, np.zeros((120, 3))
    for s in range(120):
        others = np.delete(np.arange(120), s)

        def fitted(at, others=others):
            alpha = np.exp(-((at - x[others].numpy()) ** 2).sum(1))
            return alpha @ y[others].numpy() / alpha.sum()

        moved = [fitted(x[s].numpy() + e) - fitted(x[s].numpy() - e) for e in step * np.eye(3)]
        each = np.abs(moved).sum(1) / (2 * step)
        slopes[s] = each / each.max()
    np.testing.assert_allclose(found, slopes.sum(0) / slopes.sum(0).max(), atol=1e-4)


def test_rows_that_may_see_nobody_do_not_count():
    x, y = rows(2, n=20)
    alone = column_sensitivity(x, y, lambda a, b: torch.ones_like(a * b, dtype=torch.bool))
    assert alone.tolist() == [1.0, 1.0]


def test_the_elliptical_search_leaves_idle_columns_behind_and_keeps_the_units_of_the_plain_one():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(400, 6, generator=generator)
    y = torch.sin(2 * x[:, :1])
    excluded = Excluded(x)
    metric, plain = (learn_metric(x, y, excluded, kind=kind) for kind in ("elliptical", "plain"))
    assert metric.mix is None
    assert metric.weight.argmax() == 0
    assert metric.weight[0] > 1.5 * metric.weight[1:].mean()
    assert torch.equal(metric.weight, learn_metric(x, y, excluded, kind="elliptical").weight)
    assert plain.weight.unique().numel() == 1
