"""ExtrapolativeAttention against a numpy oracle, and against nn.MultiheadAttention at its start."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from oracles.attention import attention
from torch import Tensor, nn

from excora.attention import ExtrapolativeAttention
from excora.errors import InputError
from excora.reduce import penalties

BAGS, HEADS, DIM, LENGTH = 3, 2, 8, 5
INF = math.inf


def away(layer: ExtrapolativeAttention, std: float = 0.7) -> ExtrapolativeAttention:
    for parameter in layer.extrapolation_parameters():
        nn.init.normal_(parameter, std=std)
    return layer


def padding() -> Tensor:
    """Lengths 5, 3, 4; the third bag is padded on the left."""
    return torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [1, 0, 0, 0, 0]], dtype=torch.bool)


def future() -> Tensor:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)


def as_float(hidden: Tensor, low: float = -INF) -> Tensor:
    return torch.randn(hidden.shape, dtype=torch.float64).masked_fill(hidden, low)


ROUTES: dict[str, Any] = {
    "none": dict,
    "padding": lambda: {"key_padding_mask": padding()},
    "float padding": lambda: {"key_padding_mask": as_float(padding())},
    "lowest padding": lambda: {"key_padding_mask": as_float(padding(), -1e9)},
    "causal": lambda: {"is_causal": True},
    "causal, padding": lambda: {"is_causal": True, "key_padding_mask": padding()},
    "hint, mask": lambda: {"is_causal": True, "attn_mask": future()},
    "hint, mask, padding": lambda: {"is_causal": True, "attn_mask": future(), "key_padding_mask": padding()},
    "mask": lambda: {"attn_mask": future()},
    "float mask": lambda: {"attn_mask": as_float(future())},
    "random mask": lambda: {"attn_mask": torch.rand(LENGTH, LENGTH) < 0.5},
    "mask a head": lambda: {"attn_mask": torch.rand(BAGS * HEADS, LENGTH, LENGTH) < 0.4},
    "float mask a head": lambda: {"attn_mask": as_float(torch.rand(BAGS * HEADS, LENGTH, LENGTH) < 0.4)},
    "mask, padding": lambda: {"attn_mask": future(), "key_padding_mask": padding()},
    "float mask, padding": lambda: {"attn_mask": as_float(future()), "key_padding_mask": padding()},
    "float mask, float padding": lambda: {"attn_mask": as_float(future()), "key_padding_mask": as_float(padding())},
}


def dense(masks: dict[str, Any], queries: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """The masks as (seen, bias), each (bags, heads, queries, keys), written out one by one."""
    seen, bias = np.ones((BAGS, HEADS, queries, keys), dtype=bool), np.zeros((BAGS, HEADS, queries, keys))
    for name, mask in masks.items():
        if name == "is_causal":
            seen &= np.tril(np.ones((queries, keys), dtype=bool))
            continue
        full = mask[:, None, None] if name == "key_padding_mask" else mask
        full = mask.view(BAGS, HEADS, queries, keys) if mask.dim() == 3 else full
        full = np.broadcast_to(full.numpy(), seen.shape)
        seen &= ~full if full.dtype == bool else full > -1e4
        bias += 0.0 if full.dtype == bool else np.where(full > -1e4, full, 0.0)
    return seen, bias


def check_oracle(layer: ExtrapolativeAttention, masks: dict[str, Any], queries: int = LENGTH, extra: int = 0) -> None:
    inputs = [torch.randn(BAGS, n, d) for n, d in ((queries, DIM), (LENGTH, layer.kdim), (LENGTH, layer.vdim))]
    inputs = [x.double() for x in inputs]
    seen, bias = dense(masks, queries, LENGTH)
    grow = ((0, 0), (0, 0), (0, 0), (0, extra))
    seen, bias = np.pad(seen, grow, constant_values=True), np.pad(bias, grow)
    state = {name: x.double().numpy() for name, x in layer.state_dict().items()}
    ours = layer.extrapolation
    wanted = attention(
        state, *(x.numpy() for x in inputs), heads=HEADS, seen=seen, bias=bias, cap=ours.gain.cap,
        scale="paper" if ours.divisor == 1.0 else "sqrt_dim", fixed=ours.temperature.fixed,
    )  # fmt: skip
    for need in (False, True):
        given_inputs = inputs if layer.batch_first else [x.transpose(0, 1) for x in inputs]
        output, weights = layer(*given_inputs, need_weights=need, average_attn_weights=False, **masks)
        output = output if layer.batch_first else output.transpose(0, 1)
        np.testing.assert_allclose(output.detach().numpy(), wanted[0], atol=1e-10)
        assert (weights is None) == (not need)
        if weights is not None:
            np.testing.assert_allclose(weights.detach().numpy(), wanted[1], atol=1e-12)
        for name, x in layer.last_details.items():
            some = seen.any(-1)
            np.testing.assert_allclose(np.broadcast_to(x.numpy(), some.shape)[some], wanted[2][name][some], atol=1e-10)
    deviation = (wanted[2]["gamma"] - 1.0) ** 2
    each = np.isfinite(deviation)[..., : layer.last_details["gamma"].shape[-1]]
    sums = ours.penalty_weight * np.nansum(deviation[..., : each.shape[-1]]), each.sum()
    np.testing.assert_allclose([x.item() for x in layer.last_penalty], sums, rtol=1e-9)


@pytest.mark.parametrize("route", ["none", "padding", "causal", "float mask"])
def test_the_papers_form_equals_the_oracle(route: str) -> None:
    options = {"residual": "paper", "temperature": (0.4, 0.9), "cap": 2.0, "scale": "paper"}
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True, dtype=torch.float64, **options))
    check_oracle(layer, ROUTES[route]())


def test_a_temperature_of_zero_gives_uniform_weights_and_finite_gradients() -> None:
    layer = ExtrapolativeAttention(DIM, HEADS, batch_first=True, temperature=(0.0, 1.0))
    x = torch.ones(BAGS, LENGTH, DIM, requires_grad=True)  # constant values: no dispersion
    output, weights = layer(x, x, x)
    output.sum().backward()
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / LENGTH))
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("route", ROUTES)
def test_equals_the_oracle_away_from_the_start(route: str, batch_first: bool) -> None:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=batch_first, dtype=torch.float64))
    check_oracle(layer, ROUTES[route]())


@pytest.mark.parametrize("queries", [2, 7])
@pytest.mark.parametrize("route", ["none", "padding", "causal", "causal, padding"])
def test_equals_the_oracle_with_fewer_or_more_queries_than_keys(route: str, queries: int) -> None:
    check_oracle(
        away(ExtrapolativeAttention(DIM, HEADS, dtype=torch.float64, batch_first=True)), ROUTES[route](), queries
    )


@pytest.mark.parametrize("route", ["none", "padding", "causal", "causal, padding", "float mask, padding"])
def test_equals_the_oracle_with_appended_keys_other_widths_and_the_paper_scale(route: str) -> None:
    common: dict[str, Any] = {"dtype": torch.float64, "batch_first": True}
    for extra, options in (
        (1, {"add_bias_kv": True}),
        (1, {"add_zero_attn": True}),
        (2, {"add_bias_kv": True, "add_zero_attn": True, "kdim": 3, "vdim": 6}),
        (0, {"kdim": 3, "vdim": 6, "bias": False, "scale": "paper", "cap": 2.0}),
    ):
        check_oracle(away(ExtrapolativeAttention(DIM, HEADS, **common, **options)), ROUTES[route](), extra=extra)


@pytest.mark.parametrize("route", ROUTES)
def test_gradients(route: str) -> None:
    layer = away(ExtrapolativeAttention(4, 2, dtype=torch.float64, batch_first=True))
    masks = {k: m for k, m in ROUTES[route]().items() if k == "is_causal" or m.dim() == 2}
    x = torch.randn(BAGS, LENGTH, 4, dtype=torch.float64, requires_grad=True)
    parameters = dict(layer.named_parameters())

    def run(x: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
        arguments = {**masks, "need_weights": False}
        state = dict(zip(parameters, values, strict=True))
        output, _ = torch.func.functional_call(layer, state, (x, x, x), arguments)
        return output, layer.last_penalty.sum

    assert torch.autograd.gradcheck(run, (x, *parameters.values()), fast_mode=True)

    def unfused(x: Tensor) -> Tensor:
        return layer(x, x, x, **masks)[0]

    assert torch.autograd.gradgradcheck(unfused, (x,), fast_mode=True)
    with pytest.raises(RuntimeError, match="not implemented"):  # torch refuses the second derivative of fused kernels
        torch.autograd.gradgradcheck(lambda x: run(x, *parameters.values())[0], (x,), fast_mode=True)


def test_old_checkpoints_load_strictly_and_reset_the_extrapolation() -> None:
    old, new = nn.MultiheadAttention(DIM, HEADS), away(ExtrapolativeAttention(DIM, HEADS))
    assert [name for name in new.state_dict() if name in old.state_dict()] == list(old.state_dict())
    trained = copy.deepcopy(new.state_dict())
    new.load_state_dict(old.state_dict(), strict=True)
    assert all((p == 0).all() for p in new.extrapolation_parameters())
    new.load_state_dict(trained, strict=True)
    torch.testing.assert_close(dict(new.state_dict()), dict(trained))
    partial = {name: x for name, x in trained.items() if name != "extrapolation.gain.bias"}
    with pytest.raises(RuntimeError, match=r"Missing key.*extrapolation.gain.bias"):
        new.load_state_dict(partial, strict=True)


def test_a_state_dict_of_version_0_1_loads_strictly() -> None:
    """There the parameters of gain and temperature stood on the layer itself."""
    names = {
        "gain_weight": "gain.weight", "gain_bias": "gain.bias",
        "log_temperature": "temperature.log_base", "temperature_slope": "temperature.slope",
    }  # fmt: skip
    for host, prefix in ((lambda x: x, ""), (lambda x: nn.ModuleDict({"deep": nn.Sequential(x)}), "deep.0.")):
        trained, fresh = away(ExtrapolativeAttention(DIM, HEADS)), ExtrapolativeAttention(DIM, HEADS)
        old = host(trained).state_dict()
        for before, now in names.items():
            old[prefix + before] = old.pop(f"{prefix}extrapolation.{now}")
        given = list(old)
        host(fresh).load_state_dict(old, strict=True)
        assert list(old) == given
        torch.testing.assert_close(dict(fresh.state_dict()), dict(trained.state_dict()), rtol=0, atol=0)


def test_switches_copies_and_penalty() -> None:
    x = torch.randn(LENGTH, BAGS, DIM)
    plain = ExtrapolativeAttention(DIM, HEADS, residual=None, temperature=None)
    plain(x, x, x)
    assert list(plain.extrapolation_parameters()) == []
    assert plain.last_penalty is None
    layer = away(ExtrapolativeAttention(DIM, HEADS))
    output, _ = layer(x, x, x)
    assert penalties(layer).count.tolist() == [BAGS * HEADS]
    assert penalties(layer).sum.requires_grad
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert twin.last_penalty is None
        assert torch.equal(twin(x, x, x)[0], output)
    layer._reset_parameters()
    assert all((p == 0).all() for p in layer.extrapolation_parameters())


def test_autocast_keeps_statistics_in_float32() -> None:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True), std=0.2)
    x = 3.0 + torch.randn(BAGS, LENGTH, DIM)
    for route in ("none", "padding", "causal", "mask, padding"):
        masks = ROUTES[route]()
        exact, _ = layer(x, x, x, **masks)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output, weights = layer(x, x, x, **masks)
            fused, _ = layer(x, x, x, need_weights=False, **masks)
        assert (output.dtype, weights.dtype) == (torch.bfloat16, torch.float32)
        assert {v.dtype for v in layer.last_details.values()} == {torch.float32}
        for half in (output, fused):
            torch.testing.assert_close(half.float(), exact, atol=0.3, rtol=0.1)


def test_compiles_and_exports() -> None:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True)).eval()
    x = torch.randn(BAGS, LENGTH, DIM)
    wanted, _ = layer(x, x, x, key_padding_mask=padding())
    kept = layer.last_penalty
    layer.last_penalty = None
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, x, x, key_padding_mask=padding())[0], wanted)
    torch.testing.assert_close(layer.last_penalty, kept)
    sizes = {"query": {1: torch.export.Dim("n")}}
    sizes |= {"key": sizes["query"], "value": sizes["query"], "key_padding_mask": sizes["query"]}
    program = torch.export.export(layer, (x, x, x), {"key_padding_mask": padding()}, dynamic_shapes=sizes)
    longer, hidden = torch.randn(BAGS, 9, DIM), torch.rand(BAGS, 9) < 0.3
    output = program.module()(longer, longer, longer, key_padding_mask=hidden)[0]
    torch.testing.assert_close(output, layer(longer, longer, longer, key_padding_mask=hidden)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": torch.zeros(LENGTH, 2, DIM)}, "as many values as keys"),
        ({"query": torch.zeros(LENGTH, BAGS, DIM + 1)}, "of dims"),
        ({"query": torch.zeros(DIM)}, "query, key and value"),
        ({"key": torch.zeros(0, BAGS, DIM), "value": torch.zeros(0, BAGS, DIM)}, "at least one"),
        ({"key_padding_mask": torch.zeros(LENGTH, BAGS, dtype=torch.bool)}, "key_padding_mask must be"),
        ({"attn_mask": torch.zeros(LENGTH, LENGTH, dtype=torch.int64)}, "attn_mask must be"),
        ({"attn_mask": torch.zeros(BAGS, LENGTH, LENGTH)}, r"of shape \(6, 5, 5\)"),
    ],
)
def test_wrong_input_is_named(change: dict[str, Tensor], message: str) -> None:
    arguments = {name: torch.zeros(LENGTH, BAGS, DIM) for name in ("query", "key", "value")} | change
    with pytest.raises(InputError, match=message):
        ExtrapolativeAttention(DIM, HEADS)(**arguments)


def test_wrong_options_are_named() -> None:
    with pytest.raises(InputError, match="must be above 1"):
        ExtrapolativeAttention(DIM, HEADS, cap=1.0)
    with pytest.raises(InputError, match="itself, got ExtrapolativeAttention"):
        ExtrapolativeAttention.from_multihead(ExtrapolativeAttention(DIM, HEADS))


def test_the_elliptical_metric_weighs_the_channels_of_each_head_by_what_they_move() -> None:
    """Against the formula, head by head and bag by bag; and what a plain layer has, it has too."""
    torch.manual_seed(0)
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True, metric="elliptical").double())
    plain = copy.deepcopy(layer)
    plain.metric = "plain"
    x, hidden = torch.randn(BAGS, LENGTH, DIM, dtype=torch.float64), padding()
    output, weights = layer(x, x, x, key_padding_mask=hidden, average_attn_weights=False)
    q, k, v = (part.detach().numpy() for part in layer._project(x, x, x))
    for s in range(BAGS):
        seen = ~hidden[s].numpy()
        for head in range(HEADS):
            keys, values = k[s, head][seen], v[s, head][seen]
            moved = np.abs((keys - keys.mean(0)).T @ (values - values.mean(0)) / seen.sum()).sum(1)
            tau = layer.last_details["temperature"][s, head].item()
            logits = (q[s, head] * moved / moved.max()) @ keys.T / math.sqrt(DIM // HEADS) / tau
            expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            np.testing.assert_allclose(weights[s, head][:, seen].detach(), expected, atol=1e-5)
    assert not torch.allclose(output, plain(x, x, x, key_padding_mask=hidden)[0])
    assert layer.state_dict().keys() == plain.state_dict().keys()


def test_heads_of_one_channel_have_the_metric_one_which_is_plain_attention() -> None:
    old = nn.MultiheadAttention(4, 4, batch_first=True)
    layer = ExtrapolativeAttention.from_multihead(old, metric="elliptical")
    x = torch.randn(2, 6, 4)
    torch.testing.assert_close(layer(x, x, x)[0], old(x, x, x)[0])


def test_the_elliptical_metric_refuses_masks_of_pairs_and_other_names() -> None:
    layer, x = ExtrapolativeAttention(DIM, HEADS, metric="elliptical"), torch.randn(LENGTH, BAGS, DIM)
    for masks in ({"attn_mask": future()}, {"is_causal": True}):
        with pytest.raises(InputError, match="all queries must see the same keys"):
            layer(x, x, x, **masks)
    with pytest.raises(InputError, match="metric must be 'plain' or 'elliptical'"):
        ExtrapolativeAttention(DIM, HEADS, metric="round")
