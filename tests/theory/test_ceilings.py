"""The achievable ceiling: against brute force, with a certificate of optimality, and in degenerate boxes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import plateau as oracle
from oracles.plateau_case import DOUBLE, Case

from excora import theory
from excora.moments import pearson


@pytest.mark.parametrize("seed", range(12))
def test_achievable_ceiling_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(4, 14)), 10 ** rng.uniform(-1, 0.6)
    y, low = rng.normal(size=size), rng.normal(size=size)
    high = low + width * rng.exponential(size=size) * (rng.random(size) < 0.8)
    ours = theory.achievable_ceiling(*(torch.from_numpy(x) for x in (low, high, y)))
    brute = oracle.best_pcc_in_box(low, high, y, rng)
    assert ours.estimate
    if ours.applies:
        assert brute - 1e-9 <= ours.value.item() <= brute + 1e-5
    else:
        assert brute <= 1e-9


@pytest.mark.parametrize("width", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_achievable_ceiling_is_certified_for_many_bags(width: float) -> None:
    """At the best p, r = beta a - b separates the box from all better directions: max r.q over the box is r.b = 0."""
    y, noise = torch.randn(2, 100_000, 2, dtype=DOUBLE)
    middle, half = 0.3 * y + noise, width * torch.rand_like(y)
    low, high = middle - half, middle + half
    best = theory.best_in_box(low, high, y)
    assert ((low <= best) & (best <= high)).all()
    a, b = y - y.mean(0), best - best.mean(0)
    r = a * b.square().sum(0) / (a * b).sum(0) - b
    r = r - r.mean(0)
    support = (torch.where(r > 0, high, low) * r).sum(0)
    assert (support / (r.norm(dim=0) * b.norm(dim=0)) < 1e-7).all()


@given(st.integers(0, 2**40), st.integers(0, 7), st.sampled_from(["point", "touching", "inside", "mixed", "constant"]))
def test_achievable_ceiling_in_degenerate_boxes(seed: int, bags: int, kind: str) -> None:
    g = torch.Generator().manual_seed(seed)
    y, low, width = torch.randn(3, bags, dtype=DOUBLE, generator=g)
    low, width = (low.round(), width.abs().round()) if kind == "mixed" else (low, width.abs())
    if kind == "touching":
        low = torch.where(low > 0, 0.0, -width)
    low, high = {"point": (low, low), "inside": (-1 - width, 1 + width)}.get(kind, (low, low + width))
    y = torch.ones_like(y) if kind == "constant" else y
    bound = theory.achievable_ceiling(low, high, y)
    best = theory.best_in_box(low, high, y)
    assert ((low <= best) & (best <= high)).all()
    assert bool(bound.value.isfinite()) == bool(bound.applies)
    if kind == "point" and bags > 1:
        expected = pearson(low, y)
        assert bool(bound.applies) == bool(expected > 0)
        assert not bound.applies or abs(bound.value - expected) < 1e-12
    if kind == "inside" and bags > 1:
        assert bound.vacuous
    if kind == "constant":
        assert not bound.applies


def test_achievable_ceiling_with_weights_masks_and_targets() -> None:
    case = Case(11, bags=10)
    low, high = theory.prediction_range(case.h, case.head, case.bias, mask=case.elements)
    bound = theory.achievable_ceiling(low, high, case.y, **case.options)
    for target in range(3):
        rows = case.rows(target)
        alone = theory.achievable_ceiling(low[rows, target], high[rows, target], case.y[rows, target])
        torch.testing.assert_close(bound.value[target], alone.value, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_prediction_range_of_empty_bags_is_the_bias() -> None:
    h, mask = torch.full((2, 3, 2), torch.nan), torch.zeros(2, 3, dtype=torch.bool)
    h[0, 0], mask[0, 0] = torch.tensor([1.0, 2.0]), True
    low, high = theory.prediction_range(h, torch.ones(1, 2), torch.tensor([0.5]), mask=mask)
    assert low.flatten().tolist() == high.flatten().tolist() == [3.5, 0.5]


def test_achievable_ceiling_in_float32() -> None:
    y, low, width = torch.randn(3, 5000, dtype=DOUBLE)
    exact = theory.achievable_ceiling(low, low + width.abs(), y).value
    single = theory.achievable_ceiling(low.float(), low.float() + width.abs().float(), y.float()).value
    assert single.dtype == torch.float32
    assert abs(single.item() - exact.item()) < 1e-5


def test_padding_reaches_no_gradient_of_the_range() -> None:
    case = Case(0)
    head = case.head.clone().requires_grad_()
    low, high = theory.prediction_range(case.h, head, mask=case.elements)
    (gradient,) = torch.autograd.grad((high - low).sum(), head)
    assert gradient.isfinite().all()
