"""Batches optimised to break each bound: none does, and each comes as close as the theory says it can."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from excora import theory
from excora.functional import dispersion, hull_radius
from excora.moments import pearson

DOUBLE = torch.float64
SLACK = 1 + 1e-9  # rounding; a bound that is broken is broken by more

# The ratio (quantity / bound) that the ascents below must reach, and the least upper bound that the proofs give.
TIGHTEST = {
    "gradient_ratio_bound": (0.999, 1.0),
    "gradient_bound": (0.088, math.sqrt(2) / 16),
    "hull_bound": (0.49, 0.5),
    "cosine_change_bound": (0.49, 0.5),
    "element_deviation_bound": (0.707, math.sqrt(0.5)),
    "standardised_bound": (0.999, 1.0),
    "prediction_shift_bound": (0.999, 1.0),
    "dispersion_interval": (0.999, 1.0),
}


def ascend(name: str, ratio: Callable[..., Tensor], *start: Tensor, steps: int = 160, rate: float = 0.05) -> None:
    """Gradient ascent on log(ratio); the bound holds at every step, and the tightest ratio reaches what is recorded."""
    reached, supremum = TIGHTEST[name]
    parameters = [x.clone().requires_grad_() for x in start]
    optimiser = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    tightest = 0.0
    for _ in range(steps):
        optimiser.zero_grad()
        now = ratio(*parameters)
        assert now.max() <= supremum * SLACK, f"{name}: {now.max():.6f} above the supremum {supremum:.6f}"
        tightest = max(tightest, now.max().item())
        now.clamp_min(1e-12).log().sum().neg().backward()
        optimiser.step()
        schedule.step()
    print(f"{name}: tightest ratio {tightest:.6f}")
    assert tightest >= reached, f"{name}: only {tightest:.6f}, expected {reached}: the bound became loose"


def test_ratio_bound_cannot_be_broken_and_is_tight() -> None:
    def ratio(prediction: Tensor, y: Tensor) -> Tensor:
        bound = theory.gradient_ratio_bound(prediction, y)
        return torch.where(bound.applies, theory.gradient_ratio(prediction, y) / bound.value, 0.0)

    y = torch.randn(8, 50, dtype=DOUBLE)
    ascend("gradient_ratio_bound", ratio, y + 0.5 * torch.randn_like(y), y)


def test_ratio_at_zero_correlation_stays_below_the_dropped_factor() -> None:
    y, prediction = torch.randn(2, 20, 3000, dtype=DOUBLE)
    rho = pearson(prediction, y)
    share = theory.gradient_ratio(prediction, y) / theory.gradient_ratio_bound(prediction, y).value
    assert (share <= ((1 + rho) / 2).sqrt() * SLACK)[rho >= 0].all()


def _softmax_case(h: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    alpha = torch.softmax(z, 1)
    return alpha, (alpha.unsqueeze(-1) * h).sum(1) @ w


def test_gradient_bound_cannot_be_broken_and_is_tight() -> None:
    def ratio(h: Tensor, z: Tensor, w: Tensor, y: Tensor) -> Tensor:
        alpha, prediction = _softmax_case(h, z, w)
        gradient = theory.pcc_gradient(prediction, y, theory.sensitivity(h, alpha, w))
        bound = theory.gradient_bound(prediction, dispersion(h), torch.full((len(h),), h.shape[1]), w)
        return (gradient.abs() / bound.value.unsqueeze(1))[0, 0]

    for bags, elements, steps in ((4, 2, 360), (6, 3, 900)):
        shapes = ((bags, elements, 2), (bags, elements), (2,), (bags,))
        ascend("gradient_bound", ratio, *(torch.randn(*s, dtype=DOUBLE) for s in shapes), steps=steps, rate=0.05)


def test_hull_bound_cannot_be_broken_and_is_tight() -> None:
    def ratio(centre: Tensor, half: Tensor, z: Tensor, y: Tensor, log_size: Tensor) -> Tensor:
        h = centre.unsqueeze(1) + log_size.exp() * torch.stack([half, -half], 1)
        w = torch.ones(1, dtype=DOUBLE)
        prediction, mean = _softmax_case(h, 10 * z, w)[1], h.mean(1) @ w
        bound = theory.hull_bound(mean, hull_radius(h), w)
        moved = (pearson(prediction, y) - pearson(mean, y)).abs()
        return torch.where(bound.applies, moved / bound.value, 0.0)

    start = [torch.randn(*s, dtype=DOUBLE) for s in ((8, 1), (8, 1), (8, 2), (8,))]
    ascend("hull_bound", ratio, *start, torch.tensor(-2.0, dtype=DOUBLE), steps=280)


def test_cosine_lemma_cannot_be_broken_and_is_tight() -> None:
    def ratio(a: Tensor, b: Tensor, delta: Tensor) -> Tensor:
        before, after = (torch.cosine_similarity(a, x, dim=1) for x in (b, b + delta))
        bound = theory.cosine_change_bound(b.norm(dim=1), delta.norm(dim=1))
        return torch.where(bound.applies, (after - before).abs() / bound.value, 0.0)

    a, b, delta = torch.randn(3, 200, 5, dtype=DOUBLE)
    ascend("cosine_change_bound", ratio, a, b, 0.05 * delta)


def test_helper_lemmas_cannot_be_broken_and_are_tight() -> None:
    def deviation(h: Tensor, z: Tensor) -> Tensor:
        pooled = (torch.softmax(10 * z, 1).unsqueeze(-1) * h).sum(1)
        count = torch.full((len(h),), h.shape[1])
        return (h[:, 0] - pooled).norm(dim=1) / theory.element_deviation_bound(dispersion(h), count)

    h, z = torch.randn(20, 5, 2, dtype=DOUBLE), torch.randn(20, 5, dtype=DOUBLE)
    ascend("element_deviation_bound", deviation, h, z)

    def largest(x: Tensor) -> Tensor:
        x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0)
        return x[:, 0].abs() / theory.standardised_bound(torch.tensor(1 / x.shape[1], dtype=DOUBLE))

    ascend("standardised_bound", largest, torch.randn(20, 7, dtype=DOUBLE))

    def shift(h: Tensor, z: Tensor, w: Tensor) -> Tensor:
        moved = _softmax_case(h, 10 * z, w)[1] - h.mean(1) @ w
        return moved.abs() / theory.prediction_shift_bound(hull_radius(h), w)

    ascend("prediction_shift_bound", shift, h, z, torch.randn(2, dtype=DOUBLE))
    ascend("dispersion_interval", lambda h: dispersion(h) / theory.dispersion_interval(hull_radius(h), count(h))[1], h)
    lower = lambda h: theory.dispersion_interval(hull_radius(h), count(h))[0] / dispersion(h)  # noqa: E731
    many = torch.zeros(1, 600, 1, dtype=DOUBLE)
    many[0, 0] = 1.0
    assert 0.999 <= lower(many).item() <= 1.0
    assert all(lower(torch.randn(50, n, 3, dtype=DOUBLE)).max() <= math.sqrt((n - 1) / n) * SLACK for n in (2, 3, 9))


def count(h: Tensor) -> Tensor:
    return torch.full((len(h),), h.shape[1])


def test_standardised_bound_holds_with_weights_and_is_reached() -> None:
    weight = torch.rand(1000, 6, dtype=DOUBLE) + 0.01
    share = weight / weight.sum(1, keepdim=True)
    x = torch.randn(1000, 6, dtype=DOUBLE) ** 3
    x[:500] = torch.nn.functional.one_hot(torch.randint(0, 6, (500,)), 6).to(DOUBLE)
    x = x - (share * x).sum(1, keepdim=True)
    x = x / (share * x.square()).sum(1, keepdim=True).sqrt()
    ratio = x.abs() / theory.standardised_bound(share)
    assert ratio.max() <= SLACK
    assert ratio[:500].amax(1).min() >= 1 - 1e-9


def test_the_documentation_names_every_statement_and_its_tightest_ratio() -> None:
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    assert [name for name in theory.__all__ if f"`{name}`" not in page] == []
    for name, (reached, _) in TIGHTEST.items():
        assert re.search(rf"`{name}`.*\| {reached} \|", page), f"{name}: {reached} is not what docs/theory.md says"
