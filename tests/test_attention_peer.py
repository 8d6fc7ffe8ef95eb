"""At its start ExtrapolativeAttention is nn.MultiheadAttention: both against the numpy oracle, over all they take."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from oracles.attention import attention
from torch import Tensor, nn

from excora.attention import ExtrapolativeAttention

BAGS, HEADS, DIM, QUERIES, KEYS = 3, 2, 8, 4, 6

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "other widths": {"kdim": 3, "vdim": 5},
    "one other width": {"vdim": 5, "bias": False},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True},
    "everything": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 3, "vdim": 5},
}
MASKS = (
    "none", "bool 2-D", "float 2-D", "bool 3-D", "float 3-D", "bool padding", "float padding", "bool 2-D, bool padding",
    "float 3-D, float padding", "float 2-D, bool padding",
)  # fmt: skip
LAYOUTS = ("batch first", "length first", "unbatched")


class Case(NamedTuple):
    """Batch-first inputs, the masks as nn.MultiheadAttention takes them, and written out for the oracle."""

    inputs: list[Tensor]
    masks: dict[str, Tensor]
    seen: np.ndarray
    bias: np.ndarray


def make(mask: str, layer: nn.MultiheadAttention, *, unbatched: bool = False, same: bool = False) -> Case:
    bags, queries = 1 if unbatched else BAGS, KEYS if same else QUERIES
    dims = ((queries, DIM), (KEYS, layer.kdim), (KEYS, layer.vdim))
    inputs = [torch.randn(bags, length, width, dtype=torch.float64) for length, width in dims]
    seen, bias = np.ones((bags, HEADS, queries, KEYS), dtype=bool), np.zeros((bags, HEADS, queries, KEYS))
    masks: dict[str, Tensor] = {}
    for kind in () if mask == "none" else mask.split(", "):
        dtype, place = kind.split(" ")
        shape = {"2-D": (queries, KEYS), "3-D": (bags * HEADS, queries, KEYS), "padding": (bags, KEYS)}[place]
        hidden = torch.rand(shape) < 0.4
        hidden[..., 0] = False  # a query that sees nothing is NaN there and zero here: test_visibility has it
        value = hidden if dtype == "bool" else torch.randn(shape).double().masked_fill(hidden, -torch.inf)
        full = {"2-D": hidden, "3-D": hidden.view(bags, HEADS, queries, KEYS) if place == "3-D" else hidden}.get(
            place, hidden[:, None, None] if place == "padding" else hidden
        )
        seen &= ~full.numpy()
        if dtype == "float":
            bias += value.view(full.shape).masked_fill(full, 0.0).numpy()
        name = "key_padding_mask" if place == "padding" else "attn_mask"
        masks[name] = value[0] if unbatched and place == "padding" else value
    return Case(inputs if not same else [inputs[0]] * 3, masks, seen, bias)


def run(layer: nn.MultiheadAttention, case: Case, layout: str, **options: Any) -> tuple[Tensor, Tensor | None]:
    """The layer's own layout, and its answer turned back to batch first."""
    turn = {"batch first": lambda x: x, "length first": lambda x: x.transpose(0, 1), "unbatched": lambda x: x[0]}[
        layout
    ]
    turned = {id(x): turn(x) for x in case.inputs}  # the same object stays the same
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")  # torch's, of its own
        output, weights = layer(*(turned[id(x)] for x in case.inputs), **{**case.masks, **options})
    back = {"batch first": output, "length first": output.transpose(0, 1) if output.dim() == 3 else output}
    return back.get(layout, output[None]), weights if weights is None or layout != "unbatched" else weights[None]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_outputs_and_weights_are_those_of_multihead_attention_and_of_the_oracle(name, mask, layout) -> None:
    options = OPTIONS[name]
    first = layout != "length first"
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=first, dtype=torch.float64, **options)
    if theirs.in_proj_bias is not None:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = ExtrapolativeAttention(DIM, HEADS, batch_first=first, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    extra = ours.add_zero_attn + (ours.bias_k is not None)
    for same in {False, theirs._qkv_same_embed_dim}:
        case = make(mask, theirs, unbatched=layout == "unbatched", same=same)
        grow = ((0, 0), (0, 0), (0, 0), (0, extra))
        seen, bias = np.pad(case.seen, grow, constant_values=True), np.pad(case.bias, grow)
        state = {key: x.numpy() for key, x in ours.state_dict().items()}
        wanted, weights, _ = attention(state, *(x.numpy() for x in case.inputs), heads=HEADS, seen=seen, bias=bias)
        for need, average, train in ((1, 1, 1), (1, 0, 1), (0, 1, 1), (1, 1, 0), (0, 1, 0)):
            asked = {"need_weights": bool(need), "average_attn_weights": bool(average)}
            for layer in (theirs.train(bool(train)), ours.train(bool(train))):
                with torch.set_grad_enabled(
                    bool(train)
                ):  # in eval without it nn.MultiheadAttention has a path of its own
                    output, found = run(layer, case, layout, **asked)
                np.testing.assert_allclose(output.detach().numpy(), wanted, rtol=0, atol=1e-12)
                assert (found is None) is (not need)
                if found is not None:
                    mean = weights.mean(1) if average else weights
                    np.testing.assert_allclose(found.detach().numpy(), mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_are_those_of_multihead_attention(mask) -> None:
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True, dtype=torch.float64, add_bias_kv=True)
    ours = ExtrapolativeAttention.from_multihead(theirs)
    case = make(mask, theirs)
    leaves = [x.requires_grad_() for x in case.inputs] + list(theirs.parameters())
    for need in (True, False):
        grads = [
            torch.autograd.grad(run(layer, case, "batch first", need_weights=need)[0].pow(3).sum(), leaves)
            for layer in (theirs, ours)
        ]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(b, a, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("mask", ["none", "float 2-D", "bool padding"])
@pytest.mark.parametrize("need", [True, False])
def test_the_same_weights_drop_out_and_the_memory_is_laid_out_alike(mask, layout, need) -> None:
    theirs = nn.MultiheadAttention(DIM, HEADS, dropout=0.4, batch_first=layout == "batch first", dtype=torch.float64)
    ours = ExtrapolativeAttention.from_multihead(theirs)
    for same in (True, False):
        case, results = make(mask, theirs, same=same), []
        for layer in (theirs, ours):
            torch.manual_seed(5)
            output, weights = run(layer, case, layout, need_weights=need)
            results.append((output, weights, torch.dropout(output, 0.5, train=True)))
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(b, a, rtol=0, atol=1e-12)
        assert results[0][0].stride() == results[1][0].stride()


@pytest.mark.parametrize("need", [True, False])
def test_the_causal_hint(need) -> None:
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    ours = ExtrapolativeAttention.from_multihead(theirs)
    x = torch.randn(BAGS, KEYS, DIM)
    for mask in (nn.Transformer.generate_square_subsequent_mask(KEYS), torch.ones(KEYS, KEYS).triu(1).bool()):
        results = [layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=need) for layer in (theirs, ours)]
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("need", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_masks_of_another_dtype_than_the_inputs(dtype, need) -> None:
    """More than nn.MultiheadAttention takes: to it the same numbers go in the dtype of the inputs."""
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    ours = ExtrapolativeAttention.from_multihead(theirs)
    for mask in ("float 2-D", "float 3-D", "float padding"):
        case = make(mask, theirs)
        case = case._replace(
            inputs=[x.float() for x in case.inputs], masks={name: x.to(dtype) for name, x in case.masks.items()}
        )
        found = run(ours, case, "batch first", need_weights=need)
        assert found[0].dtype == torch.float32
        case = case._replace(masks={name: x.float() for name, x in case.masks.items()})
        torch.testing.assert_close(found, run(theirs, case, "batch first", need_weights=need), rtol=0, atol=1e-5)


def test_a_bias_of_another_dtype_than_the_weights() -> None:
    for options in ({}, {"kdim": 3, "vdim": 5}):
        theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True, dtype=torch.float64, **options)
        theirs.in_proj_bias = nn.Parameter(torch.randn(3 * DIM).half())
        ours = ExtrapolativeAttention.from_multihead(theirs)
        for same in {False, theirs._qkv_same_embed_dim}:
            case = make("none", theirs, same=same)
            results = [run(layer, case, "batch first") for layer in (theirs, ours)]
            torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("need", [True, False])
@pytest.mark.parametrize("mixed", [False, True])
def test_under_autocast_and_in_half_precision(mixed, need) -> None:
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    ours = ExtrapolativeAttention.from_multihead(theirs)
    for mask in ("none", "bool padding", "float 2-D"):
        case = make(mask, theirs)
        dtypes = (torch.float32, torch.bfloat16, torch.float16) if mixed else (torch.float32,) * 3
        case = case._replace(
            inputs=[x.to(dtype) for x, dtype in zip(case.inputs, dtypes, strict=True)],
            masks={name: x.float() if x.is_floating_point() else x for name, x in case.masks.items()},
        )
        with torch.autocast("cpu", torch.bfloat16):
            results = [run(layer, case, "batch first", need_weights=need) for layer in (theirs, ours)]
        assert results[0][0].dtype == results[1][0].dtype == torch.bfloat16
        # Weights stay in float32, as nn.MultiheadAttention's do on a GPU and not on a CPU.
        torch.testing.assert_close(results[1], results[0], rtol=2e-2, atol=2e-2, check_dtype=False)
        halves = [copy.deepcopy(layer).bfloat16() for layer in (theirs, ours)]
        case = case._replace(
            inputs=[x.bfloat16() for x in case.inputs],
            masks={name: x.bfloat16() if x.is_floating_point() else x for name, x in case.masks.items()},
        )
        results = [run(layer, case, "batch first", need_weights=need) for layer in halves]
        assert results[1][0].dtype == torch.bfloat16
        torch.testing.assert_close(results[1], results[0], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", OPTIONS)
def test_state_dicts_go_both_ways_and_copies_are_equal(name) -> None:
    theirs = nn.MultiheadAttention(DIM, HEADS, **OPTIONS[name])
    ours = ExtrapolativeAttention(DIM, HEADS, **OPTIONS[name])
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    case = make("bool padding", ours)
    case = case._replace(inputs=[x.float() for x in case.inputs])
    wanted = run(ours, case, "length first")[0]
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(run(twin, case, "length first")[0], wanted)
    left = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert left.missing_keys == []
    assert all(key.startswith("extrapolation.") for key in left.unexpected_keys)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    results = [run(layer, case, "length first")[0] for layer in (theirs, ours)]
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_flag_tells_which_weights_there_are(options) -> None:
    ours = ExtrapolativeAttention(DIM, HEADS, **options)
    assert ours._qkv_same_embed_dim is (ours.in_proj_weight is not None) is (ours.q_proj_weight is None)
    ours._reset_parameters()


def test_nested_tensors_are_taken_as_multihead_attention_takes_them() -> None:
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True).eval()
    ours = ExtrapolativeAttention.from_multihead(theirs)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")
        x = torch.nested.nested_tensor([torch.randn(n, DIM) for n in (4, 1, 6)])
        results = [layer(x, x, x, need_weights=False)[0] for layer in (theirs, ours)]
        for a, b in zip(*(y.unbind() for y in results), strict=True):
            torch.testing.assert_close(b, a, rtol=0, atol=1e-6)
        assert results[1].is_nested
