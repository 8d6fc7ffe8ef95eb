"""The ridge that neighbours start from: left-out predictions, residuals and their scale."""

from __future__ import annotations

import numpy as np
import torch

from excora.models.parts.ridge_start import RidgeStart
from excora.stats.ridge import left_out_ridge


def test_residuals_are_those_of_rows_that_the_fit_has_not_seen():
    torch.manual_seed(0)
    x, y = torch.randn(30, 4), torch.randn(30, 2)
    start = RidgeStart(4, 2)
    left_out, residuals = start.fit(x, y)
    known = left_out_ridge(x.double().numpy(), y.double().numpy())
    np.testing.assert_allclose(left_out, known.left_out, atol=1e-5)
    torch.testing.assert_close(left_out + start.scale * residuals, y, rtol=0, atol=1e-5)
    torch.testing.assert_close(residuals.square().mean(0), torch.ones(2))
    np.testing.assert_allclose(start(x), known.line.predict(x.double().numpy()), atol=1e-5)


def test_a_linear_target_leaves_nothing_and_a_state_dict_brings_it_back():
    x = torch.randn(50, 2, dtype=torch.float64)
    start = RidgeStart(2, 1).double()
    start.fit(x, 1e-9 * x[:, :1])
    assert start.scale.item() == torch.tensor(1e-6, dtype=torch.float64).item()
    again = RidgeStart(2, 1).double()
    again.load_state_dict(start.state_dict())
    assert torch.equal(again(x), start(x))
    assert not list(start.parameters())
