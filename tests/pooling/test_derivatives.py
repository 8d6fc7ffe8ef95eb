"""Pools under every derivative, through the public API: first, second, forward mode, torch.func; every layout."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jvp, vmap

from excora import ECAPool, GatedPool, MeanPool, Ragged, SoftmaxPool, eca_pool
from excora.pooling import GatedScorer, Pooled

DIM = 3
POOLS = {
    "mean": lambda: MeanPool(DIM),
    "softmax": lambda: SoftmaxPool(DIM),
    "gated": lambda: GatedPool(DIM, hidden=4),
    "eca": lambda: ECAPool(DIM),
    "eca, no gain": lambda: ECAPool(DIM, residual=None),
    "eca, no temperature": lambda: ECAPool(DIM, temperature=None),
    "eca, gated": lambda: ECAPool(DIM, scorer=GatedScorer(DIM, 4)),
    "eca, the paper's": lambda: ECAPool.paper(DIM),
}
FORMS = ("padded", "masked", "ragged")
LENGTHS = torch.tensor([3, 1, 0, 4])


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    pool = POOLS[name]().double()
    with torch.no_grad():
        for parameter in pool.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return pool


def bags(form: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(1)
    if form == "ragged":
        return torch.randn(int(LENGTHS.sum()), DIM, dtype=torch.float64, generator=generator), None
    h = torch.randn(4, 4, DIM, dtype=torch.float64, generator=generator)
    return h, torch.arange(4) < LENGTHS[:, None] if form == "masked" else None


def pooled(pool: nn.Module, h: torch.Tensor, mask: torch.Tensor | None, form: str) -> Pooled:
    return pool(Ragged(h, LENGTHS)) if form == "ragged" else pool(h, mask)


def energy(out: Pooled, mask: torch.Tensor | None) -> torch.Tensor:
    """A non-linear function of everything a pool gives."""
    details = dict(out.details)
    if mask is not None and "logits" in details:
        details["logits"] = details["logits"] * mask
    parts = [out.value.pow(2).sum(), (out.weights + 0.1).log().sum(), out.penalty.sum]
    return sum((x.sin() * x).sum() for x in details.values()) + sum(parts)


def slopes(function, inputs, step=1e-6):
    """Central differences of a scalar function, one tensor an input."""
    found = []
    for place, x in enumerate(inputs):
        flat = torch.zeros(x.numel(), dtype=x.dtype)
        for k in range(x.numel()):
            sides = []
            for sign in (1, -1):
                moved = [t.detach().clone() for t in inputs]
                moved[place].view(-1)[k] += sign * step
                sides.append(function(*moved).item())
            flat[k] = (sides[0] - sides[1]) / (2 * step)
        found.append(flat.view_as(x))
    return found


def case(name: str, form: str):
    """A scalar function of h and the pool's parameters, and where to take it."""
    pool, (h, mask) = made(name), bags(form)
    names = [n for n, _ in pool.named_parameters()]

    def function(h, *parameters):
        out = functional_call(pool, dict(zip(names, parameters, strict=True)), (_argument(h, form), *_rest(mask, form)))
        return energy(out, mask)

    return function, [h, *(p.detach().clone() for p in pool.parameters())]


def _argument(h, form):
    return Ragged(h, LENGTHS) if form == "ragged" else h


def _rest(mask, form):
    return () if form == "ragged" else (mask,)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", POOLS)
def test_the_first_gradient_is_the_same_with_and_without_a_graph_of_it(name, form):
    function, inputs = case(name, form)
    plain = [t.clone().requires_grad_() for t in inputs]
    first = torch.autograd.grad(function(*plain), plain, allow_unused=True, materialize_grads=True)
    graph = [t.clone().requires_grad_() for t in inputs]
    again = torch.autograd.grad(function(*graph), graph, create_graph=True, allow_unused=True, materialize_grads=True)
    for one, other, exact in zip(first, again, slopes(function, inputs), strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(one, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", POOLS)
def test_the_second_gradient_is_that_of_finite_differences(name, form):
    function, inputs = case(name, form)
    directions = [torch.randn(t.shape, generator=torch.Generator().manual_seed(2), dtype=t.dtype) for t in inputs]

    def slope(*points):
        """The derivative along the directions: a scalar whose own gradient is a second derivative."""
        leaves = [t.detach().requires_grad_() for t in points]
        found = torch.autograd.grad(function(*leaves), leaves, allow_unused=True, materialize_grads=True)
        return sum((g * d).sum() for g, d in zip(found, directions, strict=True))

    leaves = [t.clone().requires_grad_() for t in inputs]
    first = torch.autograd.grad(function(*leaves), leaves, create_graph=True, allow_unused=True, materialize_grads=True)
    along = sum((g * d).sum() for g, d in zip(first, directions, strict=True))
    second = torch.autograd.grad(along, leaves, allow_unused=True, materialize_grads=True)
    for one, exact in zip(second, slopes(slope, inputs), strict=True):
        torch.testing.assert_close(one, exact, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("power", [1, 2])
def test_the_gradient_that_arrives_may_depend_on_the_input(power):
    """What once was three times too large, or never came back."""
    pool = made("eca, no gain" if power == 2 else "eca")
    x = torch.randn(2, 3, DIM, dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(pool(x).value.pow(power).sum(), x)[0]
    graph = torch.autograd.grad(pool(x).value.pow(power).sum(), x, create_graph=True)[0]
    torch.testing.assert_close(graph, plain, rtol=1e-12, atol=1e-13)


def test_eca_pool_whose_logits_come_from_h():
    """One input depends on another: each derivative is a partial one, and autograd adds them up."""
    h = torch.randn(2, 4, DIM, dtype=torch.float64)

    def function(h):
        value, weights = eca_pool(h, h.sum(2).tanh(), h.mean((1, 2)) + 2.0, h.square().mean((1, 2)) + 0.5)
        return (value.sin() * value).sum() + weights.square().sum()

    leaf = h.clone().requires_grad_()
    graph = torch.autograd.grad(function(leaf), leaf, create_graph=True)[0]
    torch.testing.assert_close(graph.detach(), slopes(function, [h])[0], rtol=1e-6, atol=1e-7)
    assert torch.autograd.gradgradcheck(function, (leaf,))


# torch.func and forward mode.


@pytest.mark.parametrize("form", ["padded", "masked"])
@pytest.mark.parametrize("name", POOLS)
def test_transforms_agree_with_autograd(name, form):
    function, inputs = case(name, form)
    leaf = inputs[0].clone().requires_grad_()
    expected = torch.autograd.grad(function(leaf, *inputs[1:]), leaf)[0]
    torch.testing.assert_close(grad(function)(*inputs), expected, rtol=1e-10, atol=1e-11)
    direction = torch.randn_like(inputs[0])
    _, tangent = jvp(lambda h: function(h, *inputs[1:]), (inputs[0],), (direction,))
    torch.testing.assert_close(tangent, (expected * direction).sum(), rtol=1e-9, atol=1e-10)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(function(forward_ad.make_dual(inputs[0], direction), *inputs[1:])).tangent
    torch.testing.assert_close(dual, tangent, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ["softmax", "eca", "eca, the paper's"])
def test_a_hessian_is_the_jacobian_of_the_gradient(name):
    function, inputs = case(name, "masked")

    def of_h(h):
        return function(h, *inputs[1:])

    found = hessian(of_h)(inputs[0])
    torch.testing.assert_close(found, jacfwd(grad(of_h))(inputs[0]), rtol=1e-9, atol=1e-10)
    leaf = inputs[0].clone().requires_grad_()
    torch.testing.assert_close(found, torch.autograd.functional.hessian(of_h, leaf.detach()), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["softmax", "gated", "eca"])
def test_gradients_of_each_sample_of_a_bag_model(name):
    pool, head = made(name), nn.Linear(DIM, 1).double()
    model = nn.ModuleDict({"pool": pool, "head": head})
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    h, mask = bags("masked")
    y = torch.randn(4, dtype=torch.float64)

    class Bagged(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, h, mask):
            return self.parts["head"](self.parts["pool"](h, mask).value).squeeze(1)

    bagged = Bagged()

    def loss(parameters, h, mask, y):
        named = {f"parts.{n}": p for n, p in parameters.items()}
        return (functional_call(bagged, named, (h[None], mask[None])) - y).square().sum()

    each = vmap(grad(loss), in_dims=(None, 0, 0, 0))(parameters, h, mask, y)
    for s in range(len(h)):
        alone = torch.autograd.grad(
            (bagged(h[s : s + 1], mask[s : s + 1]) - y[s]).square().sum(),
            list(model.parameters()),
            allow_unused=True,
            materialize_grads=True,
        )
        for n, expected in zip(parameters, alone, strict=True):
            torch.testing.assert_close(each[n][s], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["softmax", "eca"])
def test_float32_has_the_derivatives_of_float64(name):
    """On the compiled form, where it is installed."""
    function, inputs = case(name, "masked")
    exact = [t.clone().requires_grad_() for t in inputs]
    first = torch.autograd.grad(function(*exact), exact, create_graph=True, allow_unused=True, materialize_grads=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), exact)
    pool = made(name).float()
    leaves = [inputs[0].float().requires_grad_(), *(p for p in pool.parameters())]
    _, mask = bags("masked")
    value = energy(pool(leaves[0], mask), mask)
    ours = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
    twice = torch.autograd.grad(sum(g.square().sum() for g in ours), leaves, allow_unused=True, materialize_grads=True)
    for mine, theirs in (*zip(ours, first, strict=True), *zip(twice, second, strict=True)):
        torch.testing.assert_close(mine.double(), theirs, rtol=2e-4, atol=2e-4)
