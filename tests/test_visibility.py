"""What a query may not see reaches nothing: no value, no gradient, no NaN; and the statistics are exact."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_attention import BAGS, DIM, HEADS, INF, LENGTH, ROUTES, as_float, away, padding
from torch import Tensor

from excora.attention import ExtrapolativeAttention


@pytest.mark.parametrize("route", ["causal", "hint, mask", "mask", "float mask", "causal, padding", "mask, padding"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_future_gets_no_gradient_and_changes_nothing(route: str, need_weights: bool) -> None:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True))
    masks = {k: m.float() if m is not True and m.is_floating_point() else m for k, m in ROUTES[route]().items()}
    query, key = torch.randn(BAGS, LENGTH, DIM), torch.randn(BAGS, LENGTH, DIM, requires_grad=True)
    output, _ = layer(query, key, key, need_weights=need_weights, **masks)
    (grad,) = torch.autograd.grad(output[:, 2].square().sum(), key)
    assert (grad[:, 3:] == 0).all()
    assert (grad[0, :3] != 0).any(-1).all()
    (grad,) = torch.autograd.grad(layer(query, key, key, **masks)[0][:, :3].sum(), key)
    assert (grad[:, 3:] == 0).all()
    other = key.detach().clone()
    other[:, 3:] = 1e4 * torch.randn(BAGS, 2, DIM)
    changed, _ = layer(query, other, other, need_weights=need_weights, **masks)
    torch.testing.assert_close(changed[:, :3], output[:, :3], rtol=0, atol=1e-6)


@given(st.data())
def test_every_mask_gives_finite_values_and_gradients(data: st.DataObject) -> None:
    def bools(*shape: int) -> Tensor:
        size = math.prod(shape)
        return torch.tensor(data.draw(st.lists(st.booleans(), min_size=size, max_size=size))).view(shape)

    layer = away(ExtrapolativeAttention(4, 2, batch_first=True), std=2.0)
    hidden, mask = bools(2, 3), bools(3, 3)
    far = data.draw(st.sampled_from([0.0, 1.0, 1e4]))
    x = torch.randn(2, 3, 4) * data.draw(st.sampled_from([0.0, 1.0, 1e3])) + far
    x = x.masked_fill(hidden[..., None], data.draw(st.sampled_from([math.nan, INF, 0.0]))).requires_grad_()
    use = data.draw(st.sampled_from(["bool", "float", "none"]))
    attn_mask = {"bool": mask, "float": as_float(mask).float(), "none": None}[use]
    query = torch.randn(2, 3, 4)
    for need in (True, False):
        output, weights = layer(query, x, x, key_padding_mask=hidden, attn_mask=attn_mask, need_weights=need)
        assert output.isfinite().all()
        nothing = (hidden[:, None] | (mask if use != "none" else False)).expand(2, 3, 3).all(-1)
        torch.testing.assert_close(output[nothing], layer.out_proj.bias.expand(int(nothing.sum()), 4))
        if weights is not None:
            torch.testing.assert_close(weights.sum(-1), (~nothing).float())
        grads = torch.autograd.grad(output.sum() + layer.last_penalty.sum, [x, *layer.parameters()], allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in grads)
        assert (grads[0][hidden] == 0).all()


def test_nan_in_padding_stays_there_in_self_attention() -> None:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True))
    clean = torch.randn(BAGS, LENGTH, DIM).masked_fill(padding()[..., None], 0.0)
    dirty = clean.masked_fill(padding()[..., None], math.nan)
    grads = []
    for x in (clean, dirty):
        output, _ = layer(x, x, x, key_padding_mask=padding(), need_weights=False)
        grads.append(torch.autograd.grad(output[~padding()].square().sum(), list(layer.parameters())))
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("route", ["none", "padding", "causal", "mask"])
def test_dispersion_of_values_whose_squares_overflow_is_zero(route: str) -> None:
    layer = away(ExtrapolativeAttention(DIM, HEADS, batch_first=True), std=0.2)
    x = torch.randn(BAGS, LENGTH, DIM)
    for scale, overflows in ((1e17, False), (1e22, True)):
        output, _ = layer(x, x, scale * x, **ROUTES[route]())
        dispersion = layer.last_details["dispersion"]
        assert dispersion.isfinite().all()
        assert bool((dispersion == 0).all()) == overflows
        assert output.isfinite().all()


@pytest.mark.parametrize("route", ["none", "padding", "causal", "mask"])
def test_dispersion_is_exact_far_from_zero_and_zero_for_equal_values(route: str) -> None:
    layer = ExtrapolativeAttention(DIM, HEADS, batch_first=True, bias=False)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(DIM).repeat(3, 1))
    x = 1e3 + 1e-2 * torch.randn(BAGS, LENGTH, DIM)
    x.requires_grad_()
    layer(x, x, x, **ROUTES[route]())
    exact = copy.deepcopy(layer).double()
    exact(x.double(), x.double(), x.double(), **ROUTES[route]())
    near = layer.last_details["dispersion"].double()
    torch.testing.assert_close(near, exact.last_details["dispersion"], rtol=1e-5, atol=0)
    same = x[:, :1].expand_as(x)
    layer(same, same, same, **ROUTES[route]())
    assert (layer.last_details["dispersion"] == 0).all()
