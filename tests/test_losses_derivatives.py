"""Derivatives of the losses: finite differences of the oracle, second order, forward mode, torch.func."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from oracles import correlation as oracle
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

from excora import concordance, mse_decomposition, pearson
from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.moments import moments

Loss = Callable[..., Tensor]
ROWS, TARGETS, BATCHES = 6, 2, 3
LOSSES: dict[str, Callable[[], Loss]] = {
    "pearson loss": PearsonLoss,
    "normalised": DispersionNormalizedPearsonLoss,
    "concordance loss": ConcordanceLoss,
    "joint": JointLoss,
    "joint of concordance": lambda: JointLoss(ConcordanceLoss(), weight=2.0),
    "pearson": lambda: lambda *a: pearson(*a).mean(),
    "concordance": lambda: lambda *a: concordance(*a).mean(),
    "decomposition": lambda: lambda *a: torch.stack(mse_decomposition(*a)[:3]).mean(1).dot(a[0].new_tensor([1, 2, 3])),
}
SMOOTH = [name for name in LOSSES if name not in ("normalised", "joint")]  # those that stop no gradient
EXTRAS = {"plain": (), "masked": ("mask",), "weighted": ("mask", "weight")}


def batch(extra: str = "weighted") -> tuple[Tensor | None, ...]:
    """Prediction, target, mask and weight of BATCHES batches."""
    generator = torch.Generator().manual_seed(4)
    target = torch.randn(BATCHES, ROWS, TARGETS, generator=generator, dtype=torch.float64)
    noise = torch.randn(BATCHES, ROWS, TARGETS, generator=generator, dtype=torch.float64)
    mask = torch.rand(BATCHES, ROWS, TARGETS, generator=generator) > 0.25
    weight = torch.rand(BATCHES, ROWS, generator=generator, dtype=torch.float64) + 0.1
    keys = EXTRAS[extra]
    return 1.5 * target + noise + 0.7, target, mask if "mask" in keys else None, weight if "weight" in keys else None


def single(extra: str) -> tuple[Tensor | None, ...]:
    return tuple(None if t is None else t[0].clone() for t in batch(extra))


def merged(x: Tensor, mask: Tensor | None, weight: Tensor | None) -> Tensor:
    return torch.ones_like(x) * (1 if mask is None else mask) * (1 if weight is None else weight[:, None])


def slow(name: str, x: Tensor, y: Tensor, w: np.ndarray, sigma: list[float]) -> float:
    """The function by the oracle, with the standard deviations that it does not differentiate given."""
    a, b = x.detach().numpy(), y.detach().numpy()
    columns = [(a[:, t], b[:, t], w[:, t]) for t in range(a.shape[1])]
    rho, agreement = (np.array([f(*c) for c in columns]) for f in (oracle.pearson, oracle.concordance))
    if "decomposition" in name:
        sx, sy = (np.array([oracle.deviation(c[i], c[2]) for c in columns]) for i in (0, 1))
        means = [np.array([np.average(c[i], weights=c[2]) for c in columns]) for i in (0, 1)]
        terms = (means[0] - means[1]) ** 2, (sx - sy) ** 2, 2 * sx * sy * (1 - rho)
        return float(terms[0].mean() + 2 * terms[1].mean() + 3 * terms[2].mean())
    if name in ("pearson", "concordance"):
        return float((rho if name == "pearson" else agreement).mean())
    error = oracle.mse(a.ravel(), b.ravel(), w.ravel())
    return {
        "pearson loss": (1 - rho).mean(),
        "normalised": (sigma * (1 - rho)).mean(),
        "concordance loss": (1 - agreement).mean(),
        "joint": error + 0.5 * (sigma * (1 - rho)).mean(),
        "joint of concordance": error + 2.0 * (1 - agreement).mean(),
    }[name]


def slow_of(name: str, arguments: tuple[Tensor | None, ...]) -> Callable[[Tensor, Tensor], float]:
    x, _, mask, weight = arguments
    w = merged(x, mask, weight)
    sigma = [oracle.deviation(x[:, t], w[:, t]) for t in range(x.shape[1])]
    return lambda p, q: slow(name, p, q, w.numpy(), np.array(sigma))


def differences(function: Callable[[Tensor], float], at: Tensor, step: float = 1e-5) -> Tensor:
    """Central differences."""
    result = torch.zeros_like(at)
    for i in range(at.numel()):
        moved = [at.clone(), at.clone()]
        for m, sign in zip(moved, (1, -1), strict=True):
            m.view(-1)[i] += sign * step
        result.view(-1)[i] = (function(moved[0]) - function(moved[1])) / (2 * step)
    return result


def curved(value):
    """A function whose derivative is not constant: what a gradient must be multiplied by, once."""
    return value**3 + 2 * value


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_with_and_without_a_graph_are_finite_differences(name: str, extra: str) -> None:
    x, y, mask, weight = single(extra)
    by_oracle = slow_of(name, (x, y, mask, weight))
    expected = [
        differences(lambda z: curved(by_oracle(z, y)), x),
        differences(lambda z: curved(by_oracle(x, z)), y),
    ]
    loss = LOSSES[name]()
    for wanted in ((0,), (1,), (0, 1)):
        inputs = [t.clone().requires_grad_(i in wanted) for i, t in enumerate((x, y))]
        leaves = [inputs[i] for i in wanted]
        plain = torch.autograd.grad(curved(loss(*inputs, mask, weight)), leaves)
        graph = torch.autograd.grad(curved(loss(*inputs, mask, weight)), leaves, create_graph=True)
        for i, p, g in zip(wanted, plain, graph, strict=True):
            torch.testing.assert_close(p, expected[i], rtol=1e-7, atol=1e-8)
            torch.testing.assert_close(g.detach(), p, rtol=1e-12, atol=1e-15)
            assert g.requires_grad
            assert p.abs().max() > 1e-3, "a zero gradient proves nothing"


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives(name: str, extra: str) -> None:
    x, y, mask, weight = single(extra)
    loss = LOSSES[name]()
    for p, q in ((True, False), (False, True), (True, True)):
        inputs = x.clone().requires_grad_(p), y.clone().requires_grad_(q)
        # Every entry of the matrix of both, along random directions where one of the two is constant.
        assert torch.autograd.gradgradcheck(
            lambda a, b: curved(loss(a, b, mask, weight)), inputs, fast_mode=not (p and q)
        )


@pytest.mark.parametrize("extra", EXTRAS)
def test_second_derivatives_of_a_stopped_deviation(extra: str) -> None:
    x, y, mask, weight = (None if t is None else t[:, :1] if t.dim() == 2 else t for t in single(extra))
    w = merged(x, mask, weight)
    sigma = oracle.deviation(x, w)
    normalised = torch.autograd.functional.hessian(lambda z: DispersionNormalizedPearsonLoss()(z, y, mask, weight), x)
    plain = torch.autograd.functional.hessian(lambda z: PearsonLoss()(z, y, mask, weight), x)
    torch.testing.assert_close(normalised, sigma * plain)
    joint = torch.autograd.functional.hessian(lambda z: JointLoss()(z, y, mask, weight), x)
    error = torch.autograd.functional.hessian(lambda z: JointLoss(weight=0.0)(z, y, mask, weight), x)
    torch.testing.assert_close(joint, error + 0.5 * sigma * plain)
    torch.testing.assert_close(error.reshape(ROWS, ROWS), 2 * torch.diag(w[:, 0] / w.sum()))


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("name", LOSSES)
def test_transforms_agree_with_backward(name: str, extra: str) -> None:
    x, y, mask, weight = single(extra)
    loss = LOSSES[name]()

    def function(z: Tensor) -> Tensor:
        return curved(loss(z, y, mask, weight))

    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(function(leaf), leaf)
    second = torch.autograd.functional.hessian(function, x)
    torch.testing.assert_close(grad(function)(x), slope)
    for outer in (hessian(function), jacrev(jacrev(function)), jacfwd(jacfwd(function))):
        torch.testing.assert_close(outer(x), second)
    tangent = torch.randn_like(x)
    value, along = jvp(function, (x,), (tangent,))
    torch.testing.assert_close(value, function(x))
    torch.testing.assert_close(along, (slope * tangent).sum())
    by_oracle = slow_of(name, (x, y, mask, weight))
    numeric = differences(lambda t: curved(by_oracle(x + t * tangent, y)), torch.zeros((), dtype=x.dtype))
    torch.testing.assert_close(along, numeric, rtol=1e-6, atol=1e-8)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent)))
    torch.testing.assert_close(dual.tangent, along)


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("name", LOSSES)
def test_a_gradient_for_each_batch_is_that_of_a_loop(name: str, extra: str) -> None:
    arguments = [t for t in batch(extra) if t is not None]
    loss = LOSSES[name]()
    together = vmap(grad(loss, argnums=(0, 1)))(*arguments)
    alone = [grad(loss, argnums=(0, 1))(*(t[k] for t in arguments)) for k in range(BATCHES)]
    for got, expected in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(got, torch.stack(expected), rtol=1e-12, atol=1e-14)


def test_a_gradient_for_each_model_of_a_stack() -> None:
    x, y, mask, weight = single("weighted")
    models = [nn.Linear(TARGETS, TARGETS).double() for _ in range(3)]
    loss = JointLoss(PearsonLoss())
    parameters, buffers = stack_module_state(models)

    def objective(p: dict[str, Tensor], b: dict[str, Tensor]) -> Tensor:
        return loss(functional_call(models[0], (p, b), (x,)), y, mask, weight)

    together = vmap(grad(objective))(parameters, buffers)
    for k, model in enumerate(models):
        loss(model(x), y, mask, weight).backward()
        torch.testing.assert_close(together["weight"][k], model.weight.grad)


def test_nothing_of_a_transform_outlives_it() -> None:
    x, y, _, _ = batch()
    y[:, :, 1] = 2.0
    loss = JointLoss(PearsonLoss())
    loss(x[0], y[0])
    before = loss.undefined
    assert before.item() == 1
    vmap(grad(loss))(x, x)
    assert loss.undefined is before
    loss(x[0], x[0])
    assert loss.undefined.item() == 0


def test_invalid_weights_count_as_zero_where_they_cannot_be_read() -> None:
    x, y, _, weight = batch()
    weight[:, 2], weight[:, 4] = -1.0, torch.nan
    got = vmap(JointLoss())(x, y, torch.ones(x.shape, dtype=torch.bool), weight)
    expected = [JointLoss()(x[k], y[k], None, weight[k].nan_to_num(0.0).clamp_min(0.0)) for k in range(BATCHES)]
    torch.testing.assert_close(got, torch.stack(expected))


DEGENERATE = {
    "constant prediction": lambda x: (torch.full_like(x, 0.1), x, None),
    "constant target": lambda x: (x, torch.full_like(x, 1e3), None),
    "constant up to rounding": lambda x: (1 + torch.finfo(x.dtype).eps * (x > 0), x, None),
    "one sample": lambda x: (x[:1], x[:1] + 1, None),
    "all masked": lambda x: (x, x + 1, torch.zeros(x.shape, dtype=torch.bool)),
    "zeros": lambda x: (torch.zeros_like(x), torch.zeros_like(x), None),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["pearson loss", "normalised", "concordance loss", "pearson", "concordance"])
def test_undefined_has_no_derivative_of_any_order(name: str, dtype: torch.dtype, case: str) -> None:
    x, y, mask = DEGENERATE[case](torch.randn(5, 2, dtype=dtype))
    loss = LOSSES[name]()
    joint = JointLoss(DispersionNormalizedPearsonLoss())

    def function(z: Tensor) -> Tensor:
        return loss(z, y, mask)

    for derivative in (grad(function), hessian(function), jacrev(hessian(function))):
        assert (derivative(x) == 0).all()
    assert (torch.autograd.functional.hessian(function, x) == 0).all()
    assert hessian(lambda z: joint(z, y, mask))(x).isfinite().all()


@pytest.mark.parametrize("loss", [PearsonLoss(), ConcordanceLoss()])
def test_derivatives_next_to_undefined(loss: Loss) -> None:
    x = 1 + 8 * torch.finfo(torch.float32).eps * torch.randint(0, 9, (20,))
    y = x.flip(0) * 3
    assert moments(x[:, None], y[:, None], None).defined.all()
    for derivative in (grad, hessian):
        got = derivative(lambda z: loss(z, y))(x)
        expected = derivative(lambda z: loss(z, y.double()))(x.double())
        assert (got - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert jacrev(hessian(lambda z: loss(z, y)))(x).isfinite().all()


@pytest.mark.parametrize("function", [pearson, concordance])
def test_bounds_do_not_stop_derivatives(function: Loss) -> None:
    """Rounding puts some perfect agreements beyond 1: the value is cut there, the curvature is not."""
    x = torch.randn(200, 9, generator=torch.Generator().manual_seed(0))
    y = x.clone() if function is concordance else 3 * x
    assert function(x, y).abs().max() <= 1
    for t in range(x.shape[1]):
        got = hessian(lambda z, t=t: function(z, y[:, t]))(x[:, t])
        expected = hessian(lambda z, t=t: function(z, y[:, t].double()))(x[:, t].double())
        assert (got - expected).abs().max() <= 1e-4 * expected.abs().max()


def test_light_samples_of_large_values() -> None:
    x = torch.tensor([1e18, -1e18, 5e17, 2e17])
    for weight in (1e-3, 1e-12, 1e6):
        w = torch.full((4,), weight)
        leaf = x.clone().requires_grad_()
        value = JointLoss()(leaf, torch.zeros(4), None, w)
        (gradient,) = torch.autograd.grad(value, leaf)
        assert value.item() == pytest.approx(oracle.mse(x, np.zeros(4)), rel=1e-6)
        torch.testing.assert_close(gradient, x / 2)
