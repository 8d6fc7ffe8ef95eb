"""Sigmoid attention against its formula."""

from __future__ import annotations

import math

import numpy as np
import torch

from excora.pooling import parameter_groups
from excora.pooling.sigmoid import SigmoidPool
from pooling.samples import DIM, batch


def test_each_element_is_judged_by_itself_and_by_the_size_of_its_bag():
    torch.manual_seed(0)
    pool = SigmoidPool(DIM).double()
    with torch.no_grad():
        pool.shift.fill_(0.5)
    h, mask = batch()
    pooled = pool(h, mask)
    for s in range(1, len(h)):
        real = h[s][mask[s]]
        z = pool.scorer(real).detach().numpy()
        wanted = 1 / (1 + np.exp(-(z - math.log(len(real)) + 0.5)))
        np.testing.assert_allclose(pooled.effective[s][mask[s]].detach(), wanted, atol=1e-12)
        np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), wanted / wanted.sum(), atol=1e-12)
        np.testing.assert_allclose(pooled.value[s].detach(), wanted @ real.numpy(), atol=1e-12)


def test_scores_of_minus_infinity_leave_nothing_and_no_nan():
    pool = SigmoidPool(1, scorer=torch.nn.Identity())
    pooled = pool(torch.full((1, 3, 1), -2e3, requires_grad=True))
    assert (pooled.value == 0).all()
    assert pooled.weights.isfinite().all()
    assert parameter_groups(pool, 0.1)[-1]["params"][0] is pool.shift
