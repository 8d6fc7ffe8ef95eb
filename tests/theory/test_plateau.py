"""The exact statements of the theory, against the oracle and autograd, and every bound on random batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import plateau as oracle
from oracles.plateau_case import DOUBLE, Case

from excora import theory
from excora.errors import InputError
from excora.functional import masked_softmax
from excora.moments import pearson

SLACK = 1 + 1e-9  # rounding; a bound that is broken is broken by more


def check_bounds(case: Case) -> None:
    """Each statement of section 2 of the specification on one case."""
    alpha, prediction = masked_softmax(case.z, case.elements), case.predict(case.z)
    slope = theory.sensitivity(case.h, alpha, case.head, mask=case.elements)
    ratio = theory.gradient_ratio(prediction, case.y, **case.options)
    bound = theory.gradient_ratio_bound(prediction, case.y, **case.options)
    assert (ratio <= bound.value * SLACK)[bound.applies].all()

    gradient = theory.pcc_gradient(prediction, case.y, slope, **case.options).abs().amax(1)
    limit = theory.gradient_bound(prediction, case.sigma, case.count, case.head, **case.options)
    assert (gradient <= limit.value * SLACK + 1e-14)[limit.applies].all()

    rho, rho_0 = (pearson(p, case.y, **case.options) for p in (prediction, case.mean_prediction))
    hull = theory.hull_bound(case.mean_prediction, case.radius, case.head, **case.options)
    assert ((rho - rho_0).abs() <= hull.value * SLACK + 1e-12)[hull.applies].all()
    ceiling = theory.hull_ceiling(case.mean_prediction, case.y, case.radius, case.head, **case.options)
    assert (rho <= ceiling.value + 1e-12)[ceiling.applies].all()

    low, high = theory.prediction_range(case.h, case.head, case.bias, mask=case.elements)
    achievable = theory.achievable_ceiling(low, high, case.y, **case.options)
    assert (torch.maximum(rho, rho_0) <= achievable.value + 1e-9)[achievable.applies].all()
    assert (rho <= 1e-9)[~achievable.applies].all()
    both = ceiling.applies & achievable.applies
    assert (achievable.value <= ceiling.value + 1e-9)[both].all()

    shift = (prediction - case.mean_prediction).abs()
    assert (shift <= theory.prediction_shift_bound(case.radius, case.head) * SLACK + 1e-12).all()
    lower, upper = theory.dispersion_interval(case.radius, case.count)
    assert (lower <= case.sigma * SLACK).all()
    assert (case.sigma <= upper * SLACK).all()
    rms = theory.rms_over_bags(case.sigma, weight=case.weight)
    lower, upper = theory.dispersion_interval(theory.rms_over_bags(case.radius, weight=case.weight), case.count.max())
    assert lower <= rms * SLACK
    assert rms <= upper * SLACK
    away = (case.clean - (alpha.unsqueeze(-1) * case.clean).sum(1, keepdim=True)).norm(dim=-1)
    reach = theory.element_deviation_bound(case.sigma, case.count).unsqueeze(1) * SLACK + 1e-12
    assert (away <= reach)[case.elements].all()


def test_bounds_hold_for_thousands_of_random_batches() -> None:
    applied = torch.zeros(2)
    for seed in range(120):
        shape = (4 + seed % 9, 2 + seed % 5, 1 + seed % 4)
        case = Case(seed, *shape, spread=(2.0, 0.3, 0.02)[seed % 3], targets=25)  # 25 heads and targets: 3,000 batches
        check_bounds(case)
        hull = theory.hull_bound(case.mean_prediction, case.radius, case.head, **case.options)
        applied += torch.stack([hull.applies.sum(), (~hull.applies).sum()])
    assert applied.min() > 500  # both sides of the hull theorem's condition are met often


@given(
    st.integers(0, 2**40),
    st.integers(3, 12),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 1e3]),
)
def test_bounds_hold_for_any_shape_and_spread(seed: int, bags: int, elements: int, dim: int, spread: float) -> None:
    check_bounds(Case(seed, bags, elements, dim, spread))


@pytest.mark.parametrize("seed", range(8))
def test_gradients_equal_autograd(seed: int) -> None:
    case = Case(seed, bags=9)
    z = case.z.clone().requires_grad_()
    prediction = case.predict(z)
    alpha = masked_softmax(case.z, case.elements)
    slope = theory.sensitivity(case.h, alpha, case.head, mask=case.elements)
    jacobian = theory.softmax_jacobian(case.h, alpha, mask=case.elements)
    torch.testing.assert_close(jacobian @ case.head.t(), slope, rtol=1e-12, atol=1e-12)
    rho = pearson(prediction, case.y, **case.options)
    mse = theory.mse_decomposition(prediction, case.y, **case.options).mse
    fixed = prediction.detach()
    for values, closed in ((rho, theory.pcc_gradient), (mse, theory.mse_gradient)):
        gradient = closed(fixed, case.y, slope, **case.options)
        for target in range(3):
            (expected,) = torch.autograd.grad(values[target], z, retain_graph=True)
            torch.testing.assert_close(gradient[..., target], expected, rtol=1e-8, atol=1e-8)


def test_gradients_and_statistics_equal_the_oracle() -> None:
    case = Case(3, bags=7)
    prediction = case.predict(case.z)
    alpha = masked_softmax(case.z, case.elements)
    slope = theory.sensitivity(case.h, alpha, case.head, mask=case.elements)
    ratio = theory.gradient_ratio(prediction, case.y, **case.options)
    gradient = theory.pcc_gradient(prediction, case.y, slope, **case.options)
    parts = theory.mse_decomposition(prediction, case.y, **case.options)
    h = [case.h[s][case.elements[s]].numpy() for s in range(7)]
    for target in range(3):
        rows = case.rows(target)
        y, w = case.y[rows, target].numpy(), case.head[target].numpy()
        shifted = prediction[rows, target].numpy()
        assert ratio[target].item() == pytest.approx(oracle.gradient_ratio(y, shifted), rel=1e-12)
        assert [x[target].item() for x in parts[:3]] == pytest.approx(
            oracle.mse_terms(y, shifted), rel=1e-10, abs=1e-13
        )
        bag = rows[0]  # the numeric gradient moves every copy of a bag at once

        def by_logits(z: np.ndarray, y: np.ndarray = y, w: np.ndarray = w, rows=rows, bag: int = bag) -> float:
            logits = [case.z[s][case.elements[s]].numpy() for s in range(7)]
            logits[bag] = z
            return oracle.pcc(y, oracle.attend([h[s] for s in rows], [logits[s] for s in rows], w))

        expected = oracle.numeric_gradient(by_logits, case.z[bag][case.elements[bag]].numpy())
        np.testing.assert_allclose(gradient[bag, case.elements[bag], target].numpy(), expected, rtol=1e-6, atol=1e-8)
    expected = [oracle.dispersion_and_radius(bag) for bag in h]
    np.testing.assert_allclose(torch.stack([case.sigma, case.radius], 1).numpy(), expected, rtol=1e-12)


@given(st.integers(0, 2**40), st.floats(-6, 6), st.floats(-6, 6))
def test_decomposition_sums_to_the_mse(seed: int, scale: float, offset: float) -> None:
    case = Case(seed)
    parts = theory.mse_decomposition(10**scale * case.predict(case.z) + offset, case.y, **case.options)
    torch.testing.assert_close(parts.offset + parts.scale + parts.correlation, parts.mse, rtol=1e-10, atol=0.0)


@given(st.integers(0, 2**40), st.floats(-4, 4), st.floats(-1e3, 1e3), st.booleans())
def test_pcc_is_invariant_to_affine_changes(seed: int, exponent: float, offset: float, negative: bool) -> None:
    case = Case(seed)
    prediction, scale = case.predict(case.z), (-1 if negative else 1) * 10**exponent
    rho = pearson(prediction, case.y, **case.options)
    moved = pearson(scale * prediction + offset, case.y, **case.options)
    torch.testing.assert_close(moved, theory.affine_pcc(rho, scale), rtol=0, atol=1e-7)
    assert theory.affine_pcc(rho, 0.0).isnan().all()


def test_ratio_does_not_depend_on_the_batch_size() -> None:
    y, prediction = torch.randn(2, 32, 5, dtype=DOUBLE)
    once = theory.gradient_ratio(prediction, y)
    torch.testing.assert_close(theory.gradient_ratio(prediction.repeat(4, 1), y.repeat(4, 1)), once, rtol=1e-12, atol=0)
    factors = [f(prediction, y).square().mean(0).sqrt() for f in (theory.pcc_factor, theory.mse_factor)]
    torch.testing.assert_close(factors[0] / factors[1], once, rtol=1e-12, atol=0)


def test_ratio_survives_a_correlation_near_one() -> None:
    y = torch.randn(100, dtype=DOUBLE)
    prediction = y + 1e-9 * torch.randn_like(y)
    # sqrt(1 - rho^2) from rho would be rounding alone here; the bound's proof gives about 1/2 for sigma = 1.
    assert theory.gradient_ratio(prediction, y).item() == pytest.approx(
        oracle.gradient_ratio(y.numpy(), prediction.numpy()), rel=1e-5
    )


def test_bounds_say_when_they_do_not_apply() -> None:
    y = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [2.0, 3.0, 1.0]], dtype=DOUBLE)
    prediction = y * torch.tensor([1.0, -1.0, 1.0], dtype=DOUBLE) + 1
    bound = theory.gradient_ratio_bound(prediction, y)
    assert bound.applies.tolist() == [True, False, False]
    assert bound.value.isnan().tolist() == [False, True, True]
    assert "2 of 3" in bound.reason
    assert not bound.estimate
    head, near, far = (
        torch.eye(3, dtype=DOUBLE),
        torch.full((3,), 0.1, dtype=DOUBLE),
        torch.full((3,), 9.0, dtype=DOUBLE),
    )
    assert theory.hull_bound(prediction, near, head).applies.tolist() == [True, True, False]
    assert theory.hull_bound(prediction, far, head).value.isnan().all()
    wide = theory.hull_bound(prediction, 6 * near, head)
    assert (wide.vacuous & (wide.value >= 2)).tolist() == [True, False, False]
    assert "vacuous" in wide.reason
    ceiling = theory.hull_ceiling(prediction, y, near, head)
    assert ceiling.vacuous.tolist() == [True, False, False]
    assert theory.hull_bound(prediction, near, 0 * head).value.nan_to_num(0).eq(0).all()
    assert not theory.gradient_bound(torch.ones(4), torch.ones(4), torch.ones(4), torch.ones(2)).applies.any()
    assert theory.gradient_ratio(torch.ones(4), torch.arange(4.0)).isnan()
    assert theory.gradient_ratio(torch.arange(4.0), torch.arange(4.0)).isnan()
    assert theory.pcc_factor(torch.ones(4), torch.arange(4.0)).eq(0).all()


def test_wrong_shapes_are_refused() -> None:
    y = torch.randn(4, 2)
    with pytest.raises(InputError, match="slope"):
        theory.pcc_gradient(y, y + 1, torch.randn(4, 3))
    with pytest.raises(InputError, match="head"):
        theory.hull_bound(y, torch.ones(4), torch.ones(5))
    with pytest.raises(InputError, match="one shape"):
        theory.achievable_ceiling(y, y[:3], y)
    with pytest.raises(InputError, match="exceed"):
        theory.achievable_ceiling(y + 1, y, y)


def test_bounds_are_differentiable_and_keep_float32() -> None:
    y = torch.randn(6)
    prediction = torch.randn(6, requires_grad=True)
    total = (
        theory.gradient_ratio(prediction, y)
        + theory.hull_ceiling(prediction, y, torch.ones(6) / 9, torch.ones(1)).value
    )
    assert total.dtype == torch.float32
    (gradient,) = torch.autograd.grad(total, prediction)
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0
    double = prediction.detach().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda p: theory.gradient_ratio(p, y.double()), double)
