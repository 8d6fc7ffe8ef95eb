"""extrapolate_ on the real timm, which is imported without torchvision."""

from __future__ import annotations

import importlib.util
import pickle
from typing import Any

import pytest
import torch
from conversions import Watch, check_all_layers, check_contract, check_table, convertible, shake
from torch import nn

from checks.bare_timm import import_timm
from checks.zoo import case
from excora.convert import extrapolate_
from excora.errors import ConversionError

if importlib.util.find_spec("timm") is None:
    pytest.skip("timm is not installed: pip install --no-deps timm, as make test does", allow_module_level=True)


def test_the_table_in_the_docs() -> None:
    check_table("timm")


@pytest.mark.parametrize("name", convertible("timm"))
def test_a_converted_model_keeps_the_contract(name: str) -> None:
    check_contract("timm", name)


@pytest.mark.parametrize("name", ["ViT with attention pooling (SigLIP)", "EVA-02", "BEiT", "Swin"])
def test_all_layers(name: str) -> None:
    check_all_layers("timm", name)


def test_every_layer_left_alone_is_reported() -> None:
    model, _ = case("timm", "CaiT")
    conversion = extrapolate_(model)
    assert list(conversion.converted) == ["blocks_token_only.1.attn"]
    assert set(conversion.left) == {"blocks.0.attn", "blocks.1.attn", "blocks_token_only.0.attn"}
    assert "mixes the weights of its heads" in conversion.left["blocks.0.attn"]
    with pytest.raises(ConversionError, match="computes its softmax itself"):
        extrapolate_(case("timm", "LeViT")[0])
    import_timm()
    from timm.models.visformer import Attention

    with pytest.raises(ConversionError, match=r"own: Attention: no adapter for this class(.|\n)*register_adapter\("):
        extrapolate_(nn.ModuleDict({"own": Attention(16, num_heads=2)}))


@pytest.mark.parametrize("fused", [True, False])
def test_masks_and_dropout(fused: bool) -> None:
    import_timm()
    from timm.layers.attention import Attention

    layer = Attention(16, num_heads=4, qkv_bias=True, qk_norm=True, norm_layer=nn.LayerNorm, gated=True)
    layer.fused_attn = fused
    x, causal = torch.randn(2, 5, 16), torch.ones(5, 5, dtype=torch.bool).tril()
    choices: list[dict[str, Any]] = [{}, {"is_causal": True}, {"attn_mask": causal}, {"attn_mask": torch.randn(5, 5)}]
    before = [layer(x, **choice) for choice in choices]
    conversion = extrapolate_(layer)
    for choice, expected in zip(choices, before, strict=True):
        torch.testing.assert_close(layer(x, **choice), expected)
    shake(conversion)
    watch = Watch(layer.extrapolation)
    first = layer(x, is_causal=True)
    watch.compare(causal.expand(2, -1, -1))
    torch.testing.assert_close(layer(x, attn_mask=causal), first)
    y = torch.where(torch.arange(5)[:, None] > 2, 9.0, x)
    assert torch.equal(layer(y, is_causal=True)[:, :3], first[:, :3])
    conversion.undo()
    assert layer.fused_attn is fused


def test_a_swin_window_does_not_see_the_next_one() -> None:
    """Its mask is written as -100: the values behind it count neither in the mean nor in the dispersion."""
    model, run = case("timm", "Swin")
    conversion = extrapolate_(model, include="layers.0.blocks.1.attn")  # the block with shifted windows
    shake(conversion)
    attention = model.layers[0].blocks[1].attn
    watch, masks = Watch(attention.extrapolation), []
    note = lambda _, given, named: masks.append((*given[1:], *named.values())[0])  # noqa: E731
    attention.register_forward_pre_hook(note, with_kwargs=True)
    run(model)
    mask = masks[0]
    assert set(mask.unique().tolist()) == {-100.0, 0.0}
    watch.compare((mask == 0).repeat(2, 1, 1), attention._get_rel_pos_bias()[0])


def test_pickle_and_compile() -> None:
    model, run = case("timm", "ViT with attention pooling (SigLIP)")
    conversion = extrapolate_(model)
    shake(conversion)
    expected = run(model)
    assert torch.equal(run(pickle.loads(pickle.dumps(model))), expected)
    torch.testing.assert_close(run(torch.compile(model, backend="aot_eager", fullgraph=True)), expected)
