"""Attention maps: effective weights times values are what a layer gives, with and without a gain, in every host."""

from __future__ import annotations

import pytest
import torch
from oracles.rows import randomised, table
from torch import nn

from excora import ExtrapolativeAttention, extrapolate_
from excora.data.table import TableSpec
from excora.diagnosis.attention_maps import attention_maps
from excora.models.ft_transformer import FTTransformer


@pytest.mark.parametrize("masked", [False, True])
def test_effective_weights_make_the_output_of_an_extrapolating_layer(masked):
    layer = randomised(ExtrapolativeAttention(8, 2, batch_first=True), 0.5).eval()
    x = torch.randn(3, 5, 8)
    hidden = torch.zeros(3, 5, dtype=torch.bool)
    hidden[:, 4] = masked
    (found,) = attention_maps(layer, lambda: layer(x, x, x, key_padding_mask=hidden, need_weights=False))
    v = layer._project(x, x, x)[2]
    wanted = layer(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
    torch.testing.assert_close(layer._merge(found @ v), wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 2, 5))
    assert (found < 0).any()
    if masked:
        assert not found[..., 4].any()


def test_a_layer_that_gives_its_weights_is_read_too():
    layer, x = randomised(ExtrapolativeAttention(8, 2, batch_first=True), 0.5).eval(), torch.randn(3, 5, 8)
    (found,) = attention_maps(layer, lambda: layer(x, x, x))
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 1, 5))


@pytest.mark.parametrize("attention", ["softmax", "eca"])
def test_the_read_out_of_the_ft_transformer_as_if_all_tokens_asked(attention):
    network = FTTransformer(
        TableSpec(targets=1, numeric=3), dim=8, heads=2, blocks=2, attention=attention, where="last"
    )
    network = randomised(network, 0.3).double().eval()
    x, seen = table(4, 3), []
    maps = attention_maps(network, lambda: seen.append(network(x)))
    assert [one.shape for one in maps] == [(4, 2, 4, 4)] * 2
    pooled = seen[0].pooled["read-out"]
    torch.testing.assert_close(maps[-1].mean(1)[:, 0], pooled.effective.float(), rtol=0, atol=1e-5)


def test_a_converted_model_is_read_and_left_as_it_was():
    layers = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layers, 2, enable_nested_tensor=False).eval()
    extrapolate_(model, layers="all")
    randomised(model, 0.2)
    x = torch.randn(2, 6, 8)
    maps = attention_maps(model, lambda: model(x))
    assert [one.shape for one in maps] == [(2, 2, 6, 6)] * 2
    assert not any(module._forward_hooks for module in model.modules())


def test_what_a_causal_query_does_not_see_has_no_weight():
    q, k, v = torch.randn(3, 1, 2, 4, 8)
    call = torch.nn.functional.scaled_dot_product_attention
    (found,) = attention_maps(nn.Identity(), lambda: call(q, k, v, is_causal=True))
    torch.testing.assert_close(found @ v, call(q, k, v, is_causal=True))
    assert not found.triu(1).any()
