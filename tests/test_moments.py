"""Centred statistics against numpy and scipy in float64, their gradients, and degenerate input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import correlation as oracle
from scipy import stats
from torch import Tensor

from excora.errors import InputError
from excora.moments import concordance, moments, mse_decomposition, pearson
from excora.samples import columns

FUNCTIONS = {"pearson": (pearson, oracle.pearson), "concordance": (concordance, oracle.concordance)}
GRADIENTS = {"pearson": oracle.pearson_gradient, "concordance": oracle.concordance_gradient}
RESULTS: dict[str, Callable[..., Tensor]] = {
    "pearson": pearson,
    "concordance": concordance,
    "offset": lambda *a: mse_decomposition(*a).offset,
    "scale": lambda *a: mse_decomposition(*a).scale,
    "correlation": lambda *a: mse_decomposition(*a).correlation,
    "mse": lambda *a: mse_decomposition(*a).mse,
}


def batch(n: int, targets: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    target = torch.randn(n, targets, dtype=dtype)
    prediction = 0.6 * target + torch.randn(n, targets, dtype=dtype) + 0.3
    return prediction, target, torch.rand(n, targets) > 0.3, torch.rand(n, targets, dtype=dtype) + 0.1


def per_target(function: Callable[..., float], *arguments: Tensor) -> Tensor:
    parts = [a.detach().double().reshape(a.shape[0], -1).numpy() for a in arguments]
    return torch.tensor([function(*(p[:, t] for p in parts)) for t in range(parts[0].shape[1])], dtype=torch.float64)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_matches_the_oracle(name: str, dtype: torch.dtype, tolerance: float) -> None:
    ours, slow = FUNCTIONS[name]
    x, y, mask, weight = batch(50, 4, dtype)
    for m, w in [(None, None), (mask, None), (None, weight), (mask, weight), (mask[:, 0], weight[:, :1])]:
        merged = torch.ones_like(x) * (1 if m is None else m.reshape(50, -1)) * (1 if w is None else w)
        result = ours(x, y, m, w)
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), per_target(slow, x, y, merged), rtol=0, atol=tolerance)


def test_pearson_is_scipys() -> None:
    x, y, _, _ = batch(40, 3)
    expected = torch.tensor([stats.pearsonr(x[:, t], y[:, t]).statistic for t in range(3)])
    torch.testing.assert_close(pearson(x, y), expected, rtol=0, atol=1e-13)


def test_shapes_reduce_the_first_axis() -> None:
    x, y, _, _ = batch(9, 1)
    assert pearson(x[:, 0], y[:, 0]).shape == ()
    assert pearson(x, y).shape == (1,)
    assert concordance(x[:, 0], y[:, 0], weight=torch.ones(9, 1)).shape == ()
    assert all(term.shape == (1,) for term in mse_decomposition(x, y))
    assert pearson(x[:, 0], y[:, 0]).item() == pearson(x, y).item()


def test_decomposition_adds_up_to_the_mse() -> None:
    x, y, mask, weight = batch(30, 3)
    d = mse_decomposition(x, y, mask, weight)
    merged = mask * weight
    torch.testing.assert_close(d.mse, per_target(oracle.mse, x, y, merged))
    torch.testing.assert_close(d.offset + d.scale + d.correlation, d.mse)
    sigma = per_target(oracle.deviation, x, merged), per_target(oracle.deviation, y, merged)
    torch.testing.assert_close(d.scale, (sigma[0] - sigma[1]) ** 2)
    torch.testing.assert_close(d.correlation, 2 * sigma[0] * sigma[1] * (1 - per_target(oracle.pearson, x, y, merged)))


def test_mse_does_not_come_from_cancelling_terms() -> None:
    y = 1e3 + torch.randn(200)
    x = y + 1e-3 * torch.randn(200)
    assert mse_decomposition(x, y).mse.item() == pytest.approx(oracle.mse(x, y), rel=1e-5)


@pytest.mark.parametrize("name", RESULTS)
def test_first_and_second_derivatives(name: str) -> None:
    x, y, mask, weight = batch(6, 3)
    mask[:, 0] = True
    mask[:3] = True
    for m, w in [(None, None), (mask, weight)]:
        inputs = (x.requires_grad_(), y.requires_grad_(), m, w)
        assert torch.autograd.gradcheck(RESULTS[name], inputs)
        assert torch.autograd.gradgradcheck(RESULTS[name], inputs)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(exponents=st.tuples(st.integers(-18, 18), st.integers(-18, 18)), far=st.sampled_from([0.0, 1.0, 1e3]))
def test_float32_agrees_with_float64_at_every_scale(name: str, exponents: tuple[int, int], far: float) -> None:
    generator = torch.Generator().manual_seed(exponents[0] * 100 + exponents[1])
    y = torch.randn(60, generator=generator)
    x = (0.6 * y + torch.randn(60, generator=generator) + far) * 10.0 ** exponents[0]
    y = (y - far) * 10.0 ** exponents[1]
    x.requires_grad_()
    ours, slow = FUNCTIONS[name]
    value = ours(x, y)
    (gradient,) = torch.autograd.grad(value, x)
    exact = [t.detach().double().numpy() for t in (x, y)]
    assert abs(value.item() - slow(*exact)) <= 1e-5
    expected = GRADIENTS[name](*exact)
    smallest = torch.finfo(torch.float32).tiny  # a concordance of far different scales has gradients below it
    assert np.abs(gradient.double().numpy() - expected).max() <= 1e-5 * np.abs(expected).max() + smallest


def test_spread_far_below_the_mean() -> None:
    y = 1e3 + 1e-2 * torch.randn(500)
    x = -1e3 + 1e-2 * torch.randn(500) + (y - 1e3)
    assert abs(pearson(x, y).item() - oracle.pearson(x, y)) < 1e-5
    assert abs(concordance(x + 2e3, y).item() - oracle.concordance(x + 2e3, y)) < 1e-5


@given(slope=st.floats(1e-6, 1e6), negative=st.booleans(), shift=st.floats(-1e3, 1e3))
def test_correlation_ignores_a_linear_map(slope: float, negative: bool, shift: float) -> None:
    x, y, _, _ = batch(12, 1)
    slope = -slope if negative else slope
    torch.testing.assert_close(pearson(slope * x + shift, y), np.sign(slope) * pearson(x, y), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", RESULTS)
def test_weight_two_is_a_repeated_row_and_zero_a_masked_one(name: str) -> None:
    x, y, _, _ = batch(10, 2)
    weight = torch.tensor([1, 2, 1, 0, 3, 1, 1, 0, 2, 1])
    x[3] = torch.nan
    rows = torch.arange(10).repeat_interleave(weight)
    torch.testing.assert_close(RESULTS[name](x, y, None, weight), RESULTS[name](x[rows], y[rows]))
    torch.testing.assert_close(RESULTS[name](x, y, weight > 0), RESULTS[name](x[weight > 0], y[weight > 0]))


@pytest.mark.parametrize("name", RESULTS)
def test_nothing_leaks_from_under_the_mask(name: str) -> None:
    x, y, mask, _ = batch(12, 2, torch.float32)
    y[:, 1] = 5.0  # constant: its scale is the smallest there is
    x[~mask], y[~mask] = torch.nan, torch.inf
    x.requires_grad_()
    result = RESULTS[name](x, y, mask)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert result.isfinite().all()
    assert gradient.isfinite().all()
    assert (gradient[~mask] == 0).all()


def test_undefined_is_zero_with_zero_gradient() -> None:
    y = torch.randn(8)
    noise = 1 + torch.finfo(torch.float32).eps * torch.randint(0, 2, (8,))  # constant up to rounding
    for constant, target in [(torch.full((8,), 0.1), y), (noise, y), (y, noise), (y[:1], y[:1]), (y[:0], y[:0])]:
        x = constant.clone().requires_grad_()
        for function in (pearson, concordance):
            value = function(x, target)
            (gradient,) = torch.autograd.grad(value, x)
            assert value.item() == 0.0
            assert (gradient == 0).all()
        assert not moments(*columns(x, target, None, None)).defined.any()
    assert moments(*columns(y, 1e3 + 1e-3 * y, None, None)).defined.all()


def test_nan_outside_the_mask_is_not_hidden() -> None:
    x, y, _, _ = batch(5, 2)
    x[2, 0] = torch.nan
    assert pearson(x, y).isnan().tolist() == [True, False]
    y[:, 0] = 1.0  # a constant target, undefined by itself, does not hide it either
    assert pearson(x, y).isnan().tolist() == concordance(x, y).isnan().tolist() == [True, False]


def test_half_precision_statistics_are_float32() -> None:
    x, y, _, _ = batch(300, 2, torch.float32)
    for dtype in (torch.float16, torch.bfloat16):
        result = pearson(x.to(dtype), y)
        assert result.dtype == torch.float32
        torch.testing.assert_close(result.double(), per_target(oracle.pearson, x.to(dtype), y), rtol=0, atol=1e-6)
    assert pearson(x, y.double()).dtype == torch.float64
    assert pearson(x, (y > 0).long()).dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(4), torch.zeros(4, 1)), r"one shape, got \(4,\) and \(4, 1\)"),
        ((torch.zeros(4).long(), torch.zeros(4)), "floating"),
        ((torch.zeros(4, 1, 1), torch.zeros(4, 1, 1)), r"\(n, targets\)"),
        ((torch.zeros(4), torch.zeros(4), torch.ones(4)), "boolean"),
        ((torch.zeros(4), torch.zeros(4), torch.ones(3).bool()), "mask must have shape"),
        ((torch.zeros(4, 2), torch.zeros(4, 2), None, torch.ones(2)), "weight must have shape"),
        ((torch.zeros(4), torch.zeros(4), None, -torch.ones(4)), "not negative, got -1.0"),
        ((torch.zeros(4), torch.zeros(4), None, torch.full((4,), torch.nan)), "got nan"),
        ((torch.zeros(4), torch.zeros(4), None, torch.ones(4, requires_grad=True)), "detach"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[Tensor | None, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pearson(*arguments)
