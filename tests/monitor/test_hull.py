"""Geometry of bags, and heads that are linear or only nearly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from excora import SoftmaxPool
from excora.monitor import PlateauMonitor
from excora.monitor.hull import head_slope, hull_columns
from monitor.samples import bags_of, close


@pytest.mark.parametrize("far", [0.0, 1e3])
def test_dispersion_and_radius_of_a_homogeneous_bag_far_from_zero(far) -> None:
    h = far + 0.1 * torch.randn(16, 200, 32)
    exact = h.double()
    found = hull_columns(h, None, {}, None, None)
    deviation = (exact - exact.mean(1, keepdim=True)).norm(dim=-1)
    torch.testing.assert_close(found["radius"].double(), deviation.amax(1), rtol=2e-3, atol=0)
    torch.testing.assert_close(found["dispersion"].double(), deviation.square().mean(1).sqrt(), rtol=1e-4, atol=0)


@given(st.integers(0, 6), st.integers(0, 5), st.booleans(), st.integers(0, 1000))
def test_hull_columns_stay_finite(bags, elements, masked, seed) -> None:
    torch.manual_seed(seed)
    h = torch.randn(bags, elements, 3)
    mask = torch.rand(bags, elements) < 0.5 if masked else None
    if mask is not None:
        h = h.masked_fill(~mask.unsqueeze(-1), torch.inf)
    value = torch.randn(bags, 3)
    found = hull_columns(h, mask, {}, value, head_slope(nn.Linear(3, 2), value))
    several = torch.full((bags,), elements) if mask is None else mask.sum(1)
    assert torch.equal(found.pop("cosine").isfinite(), several >= 2)  # of one element there is no pair
    assert all(column.isfinite().all() and len(column) == bags for column in found.values())
    assert bool((found["lowest"] <= found["mean_prediction"] + 1e-5).all())
    assert bool((found["highest"] >= found["mean_prediction"] - 1e-5).all())


def test_non_linear_head_takes_the_tangent_and_claims_no_bound() -> None:
    head = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2)).double()
    v = torch.randn(6, 5, dtype=torch.float64)
    before = {k: t.clone() for k, t in head.state_dict().items()}
    slope = head_slope(head, v)
    assert head.training
    assert all(torch.equal(t, before[k]) for k, t in head.state_dict().items())
    jacobian = torch.func.vmap(torch.func.jacrev(lambda one: head.eval()(one[None])[0]))(v)
    torch.testing.assert_close(slope.slope, jacobian)
    assert not slope.linear
    # A linear map that only looks non-linear: same ceilings, but no hull bound.
    h, mask = bags_of()
    pool, linear = SoftmaxPool(5).double(), nn.Linear(5, 1).double()
    pooled, y, records = pool(h, mask), torch.randn(24, dtype=torch.float64), []
    for form in (linear, lambda value: 1.0 * linear(value)):
        monitor = PlateauMonitor()
        monitor.update(linear(pooled.value), y[:, None], pooled=pooled, h=h, mask=mask, head=form)
        records.append(monitor.end_epoch())
    assert records[0]["hull_ceiling"] is not None
    assert records[1]["hull_ceiling"] is None
    assert close(records[0]["achievable_ceiling"], records[1]["achievable_ceiling"])
