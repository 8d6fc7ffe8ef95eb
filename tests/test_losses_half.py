"""Losses of half-precision predictions: gradients against the oracle's closed forms on the same rounded input."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import correlation as oracle
from torch import Tensor

from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.moments import moments

LOSSES = {
    "pearson loss": PearsonLoss(),
    "normalised": DispersionNormalizedPearsonLoss(),
    "concordance loss": ConcordanceLoss(),
    "joint": JointLoss(),
    "joint of concordance": JointLoss(ConcordanceLoss(), weight=2.0),
}


def exact_gradient(name: str, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Gradient for the prediction by the oracle's closed forms, zero where there is no weight."""
    a, b, c = (t.double().numpy() for t in (x, y, w))
    kept, sigma = c > 0, oracle.deviation(a, c)
    parts = {"pearson": -oracle.pearson_gradient(a, b, c), "concordance": -oracle.concordance_gradient(a, b, c)}
    error = 2 * c[kept] / c.sum() * (a - b)[kept]
    gradient = {
        "pearson loss": parts["pearson"],
        "normalised": sigma * parts["pearson"],
        "concordance loss": parts["concordance"],
        "joint": error + 0.5 * sigma * parts["pearson"],
        "joint of concordance": error + 2.0 * parts["concordance"],
    }[name]
    result = torch.zeros(len(a), dtype=torch.float64)
    result[torch.from_numpy(kept)] = torch.from_numpy(gradient)
    return result


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from([torch.float16, torch.bfloat16]),
    sizes=st.tuples(*[st.floats(0.0, 1.0)] * 4),
    ulps=st.booleans(),
    heavy=st.sampled_from([None, 1e-4, 1.0, 1e4]),
)
def test_half_precision_gradients(
    seed: int, dtype: torch.dtype, sizes: tuple[float, ...], ulps: bool, heavy: float | None
) -> None:
    """Against the oracle on the same rounded input: not finite exactly where the format cannot hold the gradient."""
    draw = torch.Generator().manual_seed(seed)
    info = torch.finfo(dtype)
    low, high = (-7.0, 4.5) if dtype == torch.float16 else (-18.0, 18.0)
    spread_x, spread_y, mean_x, mean_y = (10 ** (low + s * (high - low)) for s in sizes)
    x, y = (torch.randn(24, generator=draw, dtype=torch.float64) for _ in range(2))
    x, y = mean_x + spread_x * x, mean_y + spread_y * (x + y)
    if ulps:  # a spread of a few units in the last place
        x = mean_x * (1 + info.eps * torch.randint(-2, 3, (24,), generator=draw))
    x, y = x.clamp(info.min, info.max).to(dtype), y.clamp(info.min, info.max).to(dtype)
    w = (torch.rand(24, generator=draw) > 0.2) * (1.0 if heavy is None else heavy * torch.rand(24, generator=draw))
    if not moments(x.float()[:, None], y.float()[:, None], w[:, None]).defined.all():
        return
    for name, loss in LOSSES.items():
        leaf = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf, y, w > 0, w), leaf)
        exact = exact_gradient(name, x, y, w)
        rounded = exact.to(dtype)
        assert torch.equal(gradient.isfinite(), rounded.isfinite())
        held = rounded.isfinite()
        # Rounding to the format, its smallest step, and that of float32 in units of what the terms were before they
        # cancelled: two samples have a correlation of 1 and a gradient of zero.
        unit = terms(name, x.double(), y.double(), w.double())
        allowed = info.eps * exact.abs() + 2 * info.smallest_normal * info.eps + 1e-5 * unit
        assert ((gradient.double() - exact).abs() <= allowed)[held].all(), name


def terms(name: str, x: Tensor, y: Tensor, w: Tensor) -> float:
    """Size of the gradient's largest term."""
    share = (w / w.sum()).max().item()
    sx, sy = oracle.deviation(x, w), oracle.deviation(y, w)
    far = abs(float(((x - y) * w).sum() / w.sum()))
    rho, agreement = share / sx, share * 4 * (sx + sy + far) / (sx**2 + sy**2 + far**2)
    error = 2 * share * float((x - y).abs().max())
    return {
        "pearson loss": rho,
        "normalised": share,
        "concordance loss": agreement,
        "joint": error + share,
        "joint of concordance": error + 2 * agreement,
    }[name]


@pytest.mark.parametrize(("dtype", "held"), [(torch.float16, False), (torch.bfloat16, True)])
def test_a_gradient_beyond_float16_is_infinite_and_not_nan(dtype: torch.dtype, held: bool) -> None:
    """1 / (n sigma) of predictions that differ by 6e-8, the smallest step of float16, is above its largest number."""
    x = (torch.tensor([0.0, 1.0, 2.0, 1.0]) * 2.0**-24).to(dtype).requires_grad_()
    (gradient,) = torch.autograd.grad(PearsonLoss()(x, torch.tensor([1.0, 2.0, 0.0, 5.0])), x)
    exact = exact_gradient("pearson loss", x.detach(), torch.tensor([1.0, 2.0, 0.0, 5.0]), torch.ones(4))
    assert exact.abs().max() > torch.finfo(torch.float16).max
    assert not gradient.isnan().any()
    assert bool(gradient.isfinite().all()) == held
    assert torch.equal(gradient.sign(), exact.sign().to(dtype))
