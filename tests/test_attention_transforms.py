"""ExtrapolativeAttention under what torch does to modules: derivatives, torch.func, checkpoints, fake tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from test_attention import BAGS, DIM, HEADS, LENGTH, away, future, padding
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, jvp, vmap
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from excora.attention import ExtrapolativeAttention, extrapolated_attention
from excora.errors import InputError
from excora.extrapolation import Extrapolation
from excora.reduce import Penalty, penalties
from excora.visibility import Visibility

MASKS: dict[str, Any] = {
    "none": {},
    "padding": {"key_padding_mask": padding()},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": future()},
    "float mask": {"attn_mask": torch.randn(LENGTH, LENGTH, dtype=torch.float64)},
    "mask, padding": {"attn_mask": future(), "key_padding_mask": padding()},
}


def case(**options: Any) -> tuple[ExtrapolativeAttention, Tensor]:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True, dtype=torch.float64, **options))
    return layer, torch.randn(BAGS, LENGTH, DIM, dtype=torch.float64)


def total(layer: ExtrapolativeAttention, state: dict[str, Tensor], x: Tensor, **options: Any) -> Tensor:
    """A non-linear function of output, weights and penalty."""
    output, weights = functional_call(layer, state, (x, x, x), options)
    return output.pow(3).sum() + 1e3 * layer.last_penalty.sum + (0 if weights is None else weights.square().sum())


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("need", [True, False])
def test_a_gradient_with_a_graph_is_the_gradient_and_its_derivative_that_of_finite_differences(mask, need) -> None:
    layer, x = case()
    options = {**MASKS[mask], "need_weights": need}
    leaves = {"x": x, **{name: p.detach() for name, p in layer.named_parameters()}}
    direction = {name: torch.randn_like(value) for name, value in leaves.items()}

    def slope(step: float, create_graph: bool) -> tuple[Tensor, ...]:
        moved = {name: (v + step * direction[name]).requires_grad_() for name, v in leaves.items()}
        state = {name: value for name, value in moved.items() if name != "x"}
        value = total(layer, state, moved["x"], **options)
        found = torch.autograd.grad(value, list(moved.values()), create_graph=create_graph)
        if not create_graph:
            return found
        pull = sum((g * d).sum() for g, d in zip(found, direction.values(), strict=True))
        return *found, *torch.autograd.grad(pull, list(moved.values()))

    # Torch has no second derivative of its fused kernels; of its plain one it has.
    with contextlib.nullcontext() if need else sdpa_kernel(SDPBackend.MATH):
        both, count = slope(0.0, True), len(leaves)
        for a, b in zip(both[:count], slope(0.0, False), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        ahead, behind = slope(1e-5, False), slope(-1e-5, False)
        for exact, up, down in zip(both[count:], ahead, behind, strict=True):
            torch.testing.assert_close(exact, (up - down) / 2e-5, rtol=1e-6, atol=1e-6)


# Torch's own remark on vmap over its fused kernel.
@pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented the batching rule")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("need", [True, False])
def test_per_sample_gradients_by_torch_func(mask, need) -> None:
    layer, x = case()
    state = {name: p.detach() for name, p in layer.named_parameters()}
    given = dict(MASKS[mask])
    hidden = given.pop("key_padding_mask", torch.zeros(BAGS, LENGTH, dtype=torch.bool))

    def one(state: dict[str, Tensor], x: Tensor, hidden: Tensor) -> Tensor:
        return total(layer, state, x, key_padding_mask=hidden, need_weights=need, **given)

    samples = vmap(grad(one), (None, 0, 0))(state, x, hidden)
    whole = grad(one)(state, x, hidden)
    for b in range(BAGS):
        leaves = {name: p.clone().requires_grad_() for name, p in state.items()}
        wanted = torch.autograd.grad(one(leaves, x[b], hidden[b]), list(leaves.values()))
        for name, expected in zip(leaves, wanted, strict=True):
            torch.testing.assert_close(samples[name][b], expected, rtol=1e-9, atol=1e-9)
    for name, found in whole.items():
        torch.testing.assert_close(samples[name].sum(0), found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mask", MASKS)
def test_forward_mode_is_the_gradient_along_a_direction(mask) -> None:
    layer, x = case()
    state = {name: p.detach() for name, p in layer.named_parameters()}
    direction = torch.randn_like(x)

    def run(x: Tensor) -> Tensor:
        return total(layer, state, x, **MASKS[mask])

    found = jvp(run, (x,), (direction,))[1]
    torch.testing.assert_close(found, (grad(run)(x) * direction).sum(), rtol=1e-10, atol=1e-10)


class Trunk(nn.Module):
    """Two attention layers, checkpointed or not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(case(dropout=0.3, penalty_weight=3.0)[0] for _ in range(2))

    def forward(self, x: Tensor, reentrant: bool | None) -> Tensor:
        for layer in self.layers:

            def run(x: Tensor, layer: nn.Module = layer) -> Tensor:
                return layer(x, x, x, key_padding_mask=padding(), need_weights=False)[0]

            x = run(x) if reentrant is None else checkpoint(run, x, use_reentrant=reentrant)
        return x


def step(model: Trunk, x: Tensor, reentrant: bool | None) -> list[Tensor]:
    model.zero_grad()
    torch.manual_seed(2)
    output = model(x, reentrant)
    penalty = penalties(model)
    (output.pow(3).sum() + (penalty.sum / penalty.count).sum()).backward()
    return [p.grad for p in model.parameters()]


def test_checkpointing_keeps_the_penalty_or_says_that_it_cannot() -> None:
    model, x = Trunk(), torch.randn(BAGS, LENGTH, DIM, dtype=torch.float64, requires_grad=True)
    plain = [g.clone() for g in step(model, x, None)]
    for a, b in zip(plain, step(model, x, False), strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=1e-14)
    with pytest.raises(InputError, match="use_reentrant=False"):
        step(model, x, True)
    with torch.no_grad():
        assert penalties(model).sum.shape == (2,)
    model.eval()(x, True)
    assert penalties(model).sum.shape == (2,)  # nothing trains: the number is all there is to read
    frozen = Trunk().requires_grad_(False)
    frozen(x, True)
    assert penalties(frozen).sum.shape == (2,)


def test_a_penalty_counts_once() -> None:
    layer, x = case()
    layer(x, x, x)
    assert penalties(layer).count.tolist() == [BAGS * HEADS]
    host = nn.Sequential(layer, layer)
    host.last_penalty = layer.last_penalty  # an adapter may keep it on the host too
    assert penalties(host).count.tolist() == [BAGS * HEADS]
    host.last_penalty = Penalty(*layer.last_penalty)
    assert penalties(host).count.tolist() == [BAGS * HEADS, BAGS * HEADS]


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "temperature": (0.5, 1.0)}], ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("need", [True, False])
def test_meta_and_fake_tensors(mask, need, options) -> None:
    def run(layer: nn.Module, x: Tensor, convert: Any) -> Tensor:
        given = {name: m if m is True else convert(m) for name, m in MASKS[mask].items()}
        output, weights = layer(x, x, x, need_weights=need, **given)
        output.sum().backward()
        assert weights is None or weights.shape == (BAGS, LENGTH, LENGTH + len(options) // 2)
        return output

    meta = ExtrapolativeAttention(DIM, HEADS, batch_first=True, device="meta", dtype=torch.float16, **options)
    output = run(meta, torch.empty(BAGS, LENGTH, DIM, device="meta", dtype=torch.float16), lambda m: m.to("meta"))
    assert (output.device.type, output.shape, output.dtype) == ("meta", (BAGS, LENGTH, DIM), torch.float16)
    with FakeTensorMode() as mode:
        fake = ExtrapolativeAttention(DIM, HEADS, batch_first=True, dtype=torch.float64, **options)
        output = run(fake, torch.randn(BAGS, LENGTH, DIM, dtype=torch.float64), mode.from_tensor)
    assert output.shape == (BAGS, LENGTH, DIM)


def test_fake_tensors_of_symbolic_shape() -> None:
    layer, x = case()
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True) as mode:
        symbols = [StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * n) for n in (3, 2)]
        fake = mode.from_tensor(x, symbolic_context=symbols[0])
        hidden = mode.from_tensor(padding(), symbolic_context=symbols[1])
        assert isinstance(fake.shape[0], torch.SymInt)
        for given in ({"need_weights": False}, {}, {"key_padding_mask": hidden}):  # the last ties lengths to numbers
            output, _ = layer(fake, fake, fake, **given)
            assert output.shape[:2] == fake.shape[:2]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("need", [True, False])
def test_compiles_in_one_graph(mask, need) -> None:
    layer, x = case()
    options = {**MASKS[mask], "need_weights": need}
    leaves = [x.requires_grad_(), *layer.parameters()]
    results = []
    torch._dynamo.reset()
    for run in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        output = run(x, x, x, **options)[0]
        results.append(torch.autograd.grad(output.pow(3).sum() + layer.last_penalty.sum, leaves))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("need", [True, False])
def test_the_core_takes_a_scaling_other_widths_of_values_and_no_components(need) -> None:
    q, k, v = (torch.randn(BAGS, HEADS, LENGTH, width, dtype=torch.float64) for width in (4, 4, 6))
    everything = Visibility(None, None, None, causal=False)
    plain = Extrapolation(6, heads=HEADS, residual=None, temperature=None)
    found = extrapolated_attention(plain, q, k, v, everything, scaling=0.3, need_weights=need)
    weights = torch.softmax(0.3 * q @ k.mT, -1)
    torch.testing.assert_close(found.output, weights @ v, rtol=0, atol=1e-12)
    assert found.penalty is None
    assert (found.details["gamma"] == 1).all()
    assert (found.weights is None) is not need
    ours = Extrapolation(6, heads=HEADS).double()
    nn.init.constant_(ours.gain.bias, 1.0)
    nn.init.constant_(ours.temperature.log_base, 0.5)
    found = extrapolated_attention(ours, q, k, v, everything, scaling=0.3, need_weights=need)
    weights, mean, gamma = (
        torch.softmax(0.3 / torch.e**0.5 * q @ k.mT, -1),
        v.mean(2, keepdim=True),
        found.details["gamma"],
    )
    torch.testing.assert_close(found.output, mean + gamma[..., None] * (weights @ v - mean), rtol=0, atol=1e-12)
    torch.testing.assert_close(gamma, torch.full_like(gamma, 4 / (1 + 3 / torch.e)), rtol=0, atol=1e-12)
