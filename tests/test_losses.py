"""Losses against the oracle in float64; never NaN; undefined targets, penalties and autocast."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracles import correlation as oracle
from torch import Tensor, nn

from excora.errors import InputError
from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.reduce import Penalty, penalties

LOSSES = [PearsonLoss, DispersionNormalizedPearsonLoss, ConcordanceLoss, JointLoss]


def batch(n: int = 40, targets: int = 3, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    target = torch.randn(n, targets, dtype=dtype)
    prediction = 2 * target + torch.randn(n, targets, dtype=dtype) + 0.3
    return prediction, target, torch.rand(n, targets) > 0.3, torch.rand(n, dtype=dtype) + 0.1


def slow(loss: nn.Module, x: Tensor, y: Tensor, w: Tensor) -> float:
    """The loss by the oracle; every target defined."""
    columns = [(x[:, t].numpy(), y[:, t].numpy(), w[:, t].numpy()) for t in range(x.shape[1])]
    if isinstance(loss, PearsonLoss):
        return float(np.mean([1 - oracle.pearson(*c) for c in columns]))
    if isinstance(loss, ConcordanceLoss):
        return float(np.mean([1 - oracle.concordance(*c) for c in columns]))
    if isinstance(loss, DispersionNormalizedPearsonLoss):
        return float(np.mean([oracle.deviation(c[0], c[2]) * (1 - oracle.pearson(*c)) for c in columns]))
    assert isinstance(loss, JointLoss)
    if loss.error == "mae":
        error = float(np.average(np.abs(x.numpy() - y.numpy()), weights=w.numpy()))
    else:
        error = oracle.mse(x.numpy().ravel(), y.numpy().ravel(), w.numpy().ravel())
    return error + loss.weight * slow(loss.correlation, x, y, w)


def value_and_gradient(loss: nn.Module, x: Tensor, *arguments: Tensor | None) -> tuple[Tensor, Tensor]:
    x = x.detach().clone().requires_grad_()
    value = loss(x, *arguments)
    return value, torch.autograd.grad(value, x)[0]


@pytest.mark.parametrize(
    "kind", [*LOSSES, lambda: JointLoss(ConcordanceLoss(), weight=2.0), lambda: JointLoss(error="mae")]
)
def test_matches_the_oracle(kind: type[nn.Module]) -> None:
    x, y, mask, weight = batch()
    loss = kind()
    assert loss(x, y).item() == pytest.approx(slow(loss, x, y, torch.ones_like(x)), rel=1e-12)
    assert loss(x, y, mask, weight).item() == pytest.approx(slow(loss, x, y, mask * weight[:, None]), rel=1e-12)
    assert loss(x[:, 0], y[:, 0]).item() == pytest.approx(loss(x[:, :1], y[:, :1]).item(), rel=1e-14)
    assert loss.undefined.item() == 0


@pytest.mark.parametrize("kind", [PearsonLoss, ConcordanceLoss, lambda: JointLoss(PearsonLoss())])
def test_first_and_second_derivatives(kind: type[nn.Module]) -> None:
    x, y, mask, weight = batch(7, 2)
    mask[:3] = True
    assert torch.autograd.gradcheck(kind(), (x.requires_grad_(), y.requires_grad_(), mask, weight))
    assert torch.autograd.gradgradcheck(kind(), (x, y, mask, weight))


def test_normalised_loss_stops_the_gradient_at_the_deviation() -> None:
    x, y, _, _ = batch(30, 1)
    value, gradient = value_and_gradient(DispersionNormalizedPearsonLoss(), x, y)
    sigma = x.std(0, correction=0)
    _, plain = value_and_gradient(PearsonLoss(), x, y)
    torch.testing.assert_close(gradient, sigma * plain)
    torch.testing.assert_close(gradient[:, 0].numpy(), -sigma.item() * oracle.pearson_gradient(x[:, 0], y[:, 0]))
    assert value.item() == pytest.approx(slow(DispersionNormalizedPearsonLoss(), x, y, torch.ones_like(x)))


@pytest.mark.parametrize("kind", LOSSES)
def test_weight_two_is_a_repeated_row(kind: type[nn.Module]) -> None:
    x, y, _, _ = batch(6, 2)
    weight = torch.tensor([1, 2, 1, 0, 3, 1])
    rows = torch.arange(6).repeat_interleave(weight)
    value, gradient = value_and_gradient(kind(), x, y, None, weight)
    repeated, gradients = value_and_gradient(kind(), x[rows], y[rows])
    torch.testing.assert_close(value, repeated)
    torch.testing.assert_close(gradient, torch.zeros_like(x).index_add(0, rows, gradients))


@pytest.mark.parametrize("kind", LOSSES)
def test_mean_over_the_defined_targets(kind: type[nn.Module]) -> None:
    x, y, _, _ = batch(20, 4)
    y[:, 1], x[:, 2] = 3.0, 0.1
    loss = kind()
    _, gradient = value_and_gradient(loss, x, y)
    assert loss.undefined.item() == 2
    assert loss.undefined.dtype == torch.int64
    correlation = loss.correlation if isinstance(loss, JointLoss) else loss
    torch.testing.assert_close(correlation(x, y), copy.deepcopy(correlation)(x[:, [0, 3]], y[:, [0, 3]]))
    if correlation is loss:
        assert (gradient[:, 1:3] == 0).all()
    assert loss.state_dict() == {}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_nothing_defined_is_exactly_zero_and_still_in_the_graph(kind: type[nn.Module], n: int) -> None:
    x, y, _, _ = batch(n, 2, torch.float32)
    x, y = x * 0 + 0.1, y * torch.nan
    loss = kind()
    value, gradient = value_and_gradient(loss, x, y, torch.zeros(n, 2, dtype=torch.bool))
    assert value.requires_grad
    assert value.item() == 0.0
    assert (gradient == 0).all()
    assert loss.undefined.item() == 2


VALUES = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.125, 1e3]), st.floats(-(2.0**60), 2.0**60, width=32))


@given(data=st.data(), n=st.sampled_from([0, 1, 2, 3, 7]), targets=st.integers(1, 3))
def test_never_nan(data: st.DataObject, n: int, targets: int) -> None:
    x, y = (torch.from_numpy(data.draw(hnp.arrays(np.float32, (n, targets), elements=VALUES))) for _ in range(2))
    mask = torch.from_numpy(data.draw(hnp.arrays(np.bool_, (n, targets))))
    weight = torch.from_numpy(data.draw(hnp.arrays(np.float32, (n,), elements=st.sampled_from([0.0, 0.5, 2.0]))))
    if data.draw(st.booleans()):
        x, y = x.masked_fill(~mask, torch.nan), y.masked_fill(~mask, torch.inf)
    else:
        mask = mask | True
    for kind in LOSSES:
        value, gradient = value_and_gradient(kind(), x, y, mask, weight)
        assert value.isfinite()
        assert gradient.isfinite().all()
        assert (gradient[~mask] == 0).all()


@pytest.mark.parametrize("scales", [(1e-18, 1e-18), (1e18, 1e18), (1e-18, 1e18), (1e18, 1e-18), (1.0, 1e-18)])
def test_float32_agrees_with_float64_at_every_scale(scales: tuple[float, float]) -> None:
    x, y, mask, weight = batch(512, 5)
    x, y = ((t * s).float() for t, s in zip((x, y), scales, strict=True))
    for kind in LOSSES:
        value, gradient = value_and_gradient(kind(), x, y, mask, weight.float())
        exact, slope = value_and_gradient(kind(), x.double(), y.double(), mask, weight.float().double())
        assert value.item() == pytest.approx(exact.item(), rel=1e-5)
        assert (gradient - slope).abs().max() <= 1e-5 * slope.abs().max() + torch.finfo(torch.float32).tiny


@pytest.mark.parametrize("kind", LOSSES)
def test_no_loss_of_a_perfect_prediction_is_below_zero(kind: type[nn.Module]) -> None:
    """Rounding puts a correlation beyond 1: times a deviation of 1e7 that was a loss of -1."""
    for seed in range(50):
        y = torch.randn(3 + seed % 9, generator=torch.Generator().manual_seed(seed)) * 1e7
        loss = kind()(y.clone().requires_grad_(True), y)
        loss.backward()
        assert 0 <= loss.item() <= 2e-6 * 1e7
        assert PearsonLoss()(y, -3 * y).item() <= 2


def test_penalties_in_every_form() -> None:
    x, y, _, _ = batch()
    loss = JointLoss()
    base = loss(x, y).item()
    total = torch.tensor(6.0, requires_grad=True)
    pair = Penalty(total, torch.tensor(4))
    vector = Penalty(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 0.0]))
    for penalty, expected in [
        (pair, 1.5),
        (tuple(pair), 1.5),
        (vector, 2.5),
        ([pair, vector], 4.0),
        (iter([pair, pair]), 3.0),
        ([], 0.0),
        (penalties(nn.Linear(1, 1)), 0.0),
    ]:
        assert loss(x, y, penalty=penalty).item() - base == pytest.approx(expected)
    loss(x, y, penalty=[pair, vector]).backward()
    assert total.grad == pytest.approx(0.25)
    with pytest.raises(InputError, match="equal shapes"):
        loss(x, y, penalty=(torch.zeros(2), torch.zeros(())))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="broadcasting"):
        JointLoss()(torch.zeros(4), torch.zeros(4, 1))
    with pytest.raises(InputError, match="not negative"):
        PearsonLoss()(torch.zeros(2), torch.zeros(2), weight=torch.tensor([1.0, -1.0]))
    with pytest.raises(InputError, match="at least 0, got -1"):
        JointLoss(weight=-1)
    with pytest.raises(InputError, match="error must be one of mse, mae, got 'mape'"):
        JointLoss(error="mape")
    assert "weight=0.5" in repr(JointLoss())
    assert "error='mae'" in repr(JointLoss(error="mae"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_keeps_statistics_in_float32(dtype: torch.dtype) -> None:
    x, y, mask, weight = batch(64, 3, torch.float32)
    layer = nn.Linear(3, 3)
    for kind in LOSSES:
        with torch.autocast("cpu", dtype=dtype):
            prediction = layer(x)
            value = kind()(prediction, y, mask, weight)
        assert prediction.dtype == dtype
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, kind()(prediction.float(), y, mask, weight))
        (gradient,) = torch.autograd.grad(value, layer.weight)
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0
