"""timm: self-attention and attention pooling heads. It has no registry of attention back ends: a list of classes.

Each calls torch's fused attention once if its ``fused_attn`` is on; the conversion turns that on for the layer.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from excora.convert.adapter import Adapter, Rerouted, judge_class, path_of, swap
from excora.convert.hosted import Options


class _Windowed(Rerouted):
    hides = -50.0  # Swin writes the mask between windows as -100, plus a bias of positions


_TAKEN: dict[str, type] = {
    "timm.layers.attention.Attention": Rerouted,  # ViT, DeiT, MobileViT, CLIP, SigLIP, DINOv2 ...
    "timm.layers.attention.AttentionRope": Rerouted,
    "timm.layers.attention_pool.AttentionPoolLatent": Rerouted,
    "timm.layers.attention_pool.AttentionPoolPrr": Rerouted,
    "timm.layers.attention_pool2d.AttentionPool2d": Rerouted,
    "timm.layers.attention_pool2d.RotAttentionPool2d": Rerouted,
    "timm.models.beit.Attention": Rerouted,
    "timm.models.cait.ClassAttn": Rerouted,  # XCiT's read-out too
    "timm.models.eva.EvaAttention": Rerouted,
    "timm.models.metaformer.Attention": Rerouted,
    "timm.models.pvt_v2.Attention": Rerouted,
    "timm.models.swin_transformer.WindowAttention": _Windowed,
    "timm.models.twins.GlobalSubSampleAttn": Rerouted,
    "timm.models.vision_transformer_relpos.RelPosAttention": Rerouted,
}
_DECLINED = {
    "timm.models.cait.TalkingHeadAttn": "it mixes the weights of its heads, so that no head is a mean of values",
    "timm.models.xcit.XCA": "it attends between channels, not between elements",
    "timm.models.davit.ChannelAttention": "it attends between channels, not between elements",
    "timm.models.davit.ChannelAttentionV2": "it attends between channels, not between elements",
    "timm.models.edgenext.CrossCovarianceAttn": "it attends between channels, not between elements",
    "timm.models.mobilevit.LinearSelfAttention": "it multiplies by a summed context instead of attending",
    "timm.models.swin_transformer_v2.WindowAttention": "it computes its softmax itself, on cosine similarities",
    "timm.models.levit.Attention": "it computes its softmax itself",
    "timm.models.levit.AttentionDownsample": "it computes its softmax itself",
    "timm.models.crossvit.CrossAttention": "it computes its softmax itself",
    "timm.models.volo.ClassAttention": "it computes its softmax itself",
    "timm.models.tnt.Attention": "it computes its softmax itself",
    "timm.models.nest.Attention": "it attends within blocks of an image, with an axis more than others",
    "timm.layers.diff_attention.DiffAttention": "it subtracts two softmaxes, so that its weights are no mean",
}


def _judge(module: nn.Module) -> str | None:
    path = path_of(type(module))
    if path in _DECLINED:
        return _DECLINED[path]
    if path in _TAKEN:
        return judge_class(module, path)
    known = [path_of(base) for base in type(module).__mro__[1:]]
    return "a subclass, which may compute something else" if any(base in _TAKEN for base in known) else None


def _install(module: Any, options: Options) -> None:
    width = module.head_dim if hasattr(module, "head_dim") else module.proj.in_features // module.num_heads
    module.fused_attn = True
    swap(module, _TAKEN[path_of(type(module))], width, module.num_heads, options)


ADAPTER = Adapter("timm's Attention and attention pooling heads", _judge, _install)
