"""extrapolate_ on the real timm, which is imported without torchvision."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from checks.bare_timm import import_timm
from checks.zoo import case
from convert.contract import Watch, check_all_layers, check_contract, check_table, convertible, shake
from excora.convert import extrapolate_
from excora.convert.adapter import path_of
from excora.convert.timm import _DECLINED, _TAKEN
from excora.errors import ConversionError

if importlib.util.find_spec("timm") is None:
    pytest.skip("timm is not installed: pip install --no-deps timm, as make test does", allow_module_level=True)


def test_the_table_in_the_docs() -> None:
    check_table("timm")


@pytest.mark.parametrize("name", convertible("timm"))
def test_a_converted_model_keeps_the_contract(name: str) -> None:
    check_contract("timm", name)


@pytest.mark.parametrize("name", convertible("timm"))
def test_all_layers(name: str) -> None:
    check_all_layers("timm", name)


def layers() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    """One of each class of the list, and what its forward takes."""
    timm = import_timm()
    from timm.layers import attention, attention_pool, attention_pool2d
    from timm.models import beit, cait, eva, metaformer, pvt_v2, swin_transformer, twins, vision_transformer_relpos

    assert timm.__version__ >= "1.0.30"
    x, image = torch.randn(2, 9, 16), torch.randn(2, 16, 3, 3)
    made = [
        (attention.Attention(16, num_heads=4), (x,)),
        (attention.AttentionRope(16, num_heads=4, qkv_fused=False, num_kv_heads=2), (x,)),
        (attention_pool.AttentionPoolLatent(16, num_heads=4), (x,)),
        (attention_pool.AttentionPoolPrr(16, num_heads=4), (x,)),
        (attention_pool2d.AttentionPool2d(16, feat_size=3, num_heads=4), (image,)),
        (attention_pool2d.RotAttentionPool2d(16, ref_feat_size=3, num_heads=4), (image,)),
        (beit.Attention(16, num_heads=4, window_size=None), (x,)),
        (cait.ClassAttn(16, num_heads=4), (x,)),
        (eva.EvaAttention(16, num_heads=4, scale_norm=False), (x,)),
        (metaformer.Attention(16, head_dim=4), (x,)),
        (pvt_v2.Attention(16, num_heads=4), (x, (3, 3))),
        (swin_transformer.WindowAttention(16, num_heads=4, window_size=(3, 3)), (x,)),
        (twins.GlobalSubSampleAttn(16, num_heads=4), (x, (3, 3))),
        (vision_transformer_relpos.RelPosAttention(16, num_heads=4), (x,)),
    ]
    return {path_of(type(layer)): (layer, inputs) for layer, inputs in made}


def test_every_class_of_the_list_extrapolates() -> None:
    tried = layers()
    assert set(tried) == set(_TAKEN)
    for path, (layer, inputs) in tried.items():
        before, old = layer(*inputs).detach(), layer.state_dict()
        conversion = extrapolate_(layer)
        torch.testing.assert_close(layer(*inputs).detach(), before, msg=path)
        shake(conversion)
        watch = Watch(layer.extrapolation)
        assert (layer(*inputs) - before).abs().max() > 1e-4, path
        (q, k, _), _ = watch.calls[0]
        if "relpos" not in path and "swin" not in path:  # those have a bias
            watch.compare(torch.ones(q.shape[0], q.shape[2], k.shape[2], dtype=torch.bool))
        layer.load_state_dict(old, strict=True)
        torch.testing.assert_close(layer(*inputs).detach(), before, msg=path)


def test_every_declined_class_exists() -> None:
    import_timm()
    for path in _DECLINED:
        module, _, name = path.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), name), nn.Module)


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
