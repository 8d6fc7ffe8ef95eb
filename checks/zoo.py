"""Models of other libraries in their smallest form, with random weights: what docs/convert.md says converts, is tried.

A case is ``(library, model, build)``; ``build()`` returns the module and a function that runs it and returns a tensor.
Nothing is downloaded, and a library is imported when one of its models is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from checks.bare_timm import import_timm

Run = Callable[[nn.Module], Tensor]
BAGS, LENGTH, DIM = 2, 7, 16
#: The second sequence of a batch ends with two padded tokens.
REAL = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 2]])
TEXT: dict[str, Any] = {"vocab_size": 40, "hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT |= {"intermediate_size": 32}
IMAGE: dict[str, Any] = {k: v for k, v in TEXT.items() if k != "vocab_size"}
IMAGE |= {"image_size": 16, "patch_size": 8}


class Case(NamedTuple):
    library: str
    model: str
    build: Callable[[], tuple[nn.Module, Run]]


def tokens() -> Tensor:
    return torch.randint(5, 40, (BAGS, LENGTH), generator=torch.Generator().manual_seed(1))


def pixels(size: int = 16) -> Tensor:
    return torch.randn(BAGS, 3, size, size, generator=torch.Generator().manual_seed(1))


def bags() -> Tensor:
    return torch.randn(BAGS, LENGTH, DIM, generator=torch.Generator().manual_seed(1))


def _hidden(**inputs: Any) -> Run:
    return lambda model: model(**inputs).last_hidden_state


def _transformer(module: str, name: str, run: Run, **options: Any) -> Callable[[], tuple[nn.Module, Run]]:
    def build() -> tuple[nn.Module, Run]:
        import importlib

        base = f"transformers.models.{module}"
        config = getattr(
            importlib.import_module(f"{base}.configuration_{module}"), name.removesuffix("Model") + "Config"
        )
        kind = getattr(importlib.import_module(f"{base}.modeling_{module}"), name)
        return kind(config(**options)), run

    return build


def _clip() -> tuple[nn.Module, Run]:
    from transformers.models.clip.configuration_clip import CLIPConfig
    from transformers.models.clip.modeling_clip import CLIPModel

    text = {**TEXT, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    config = CLIPConfig(text_config=text, vision_config=IMAGE, projection_dim=8)

    def run(model: nn.Module) -> Tensor:
        result = model(input_ids=tokens(), attention_mask=REAL.long(), pixel_values=pixels())
        return torch.cat([result.text_embeds, result.image_embeds])

    return CLIPModel(config), run


def _transformers() -> list[Case]:
    text = _hidden(input_ids=tokens(), attention_mask=REAL.long())
    image = _hidden(pixel_values=pixels())
    both = _hidden(input_ids=tokens(), attention_mask=REAL.long(), decoder_input_ids=tokens()[:, :5])
    sound = _hidden(input_values=torch.randn(BAGS, 400, generator=torch.Generator().manual_seed(1)))
    gpt2 = {"vocab_size": 40, "n_embd": DIM, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}
    distil = {"vocab_size": 40, "dim": DIM, "n_layers": 2, "n_heads": 4, "hidden_dim": 32}
    t5 = {"vocab_size": 40, "d_model": DIM, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4}
    wave = {**TEXT, "conv_dim": (8, 8), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2}
    wave |= {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0}
    grouped = {**TEXT, "num_key_value_heads": 2}
    made = {
        "BERT": _transformer("bert", "BertModel", text, **TEXT),
        "RoBERTa": _transformer("roberta", "RobertaModel", text, **TEXT),
        "DistilBERT": _transformer("distilbert", "DistilBertModel", text, **distil),
        "ESM": _transformer("esm", "EsmModel", text, **TEXT, pad_token_id=1, mask_token_id=3),
        "GPT-2": _transformer("gpt2", "GPT2Model", text, **gpt2),
        "Llama": _transformer("llama", "LlamaModel", text, **grouped),
        "T5": _transformer("t5", "T5Model", both, **t5, decoder_start_token_id=0),
        "ViT": _transformer("vit", "ViTModel", image, **IMAGE),
        "DINOv2": _transformer("dinov2", "Dinov2Model", image, **IMAGE),
        "CLIP": _clip,
        "Wav2Vec2": _transformer("wav2vec2", "Wav2Vec2Model", sound, **wave),
        "Gemma 2": _transformer("gemma2", "Gemma2Model", text, **grouped, head_dim=4),
        "DeBERTa": _transformer("deberta", "DebertaModel", text, **TEXT),
    }
    return [Case("transformers", name, build) for name, build in made.items()]


def _timm(module: str, name: str, size: int = 16, **options: Any) -> Callable[[], tuple[nn.Module, Run]]:
    def build() -> tuple[nn.Module, Run]:
        import_timm()
        import importlib

        kind = getattr(importlib.import_module(f"timm.models.{module}"), name)
        return kind(**options, num_classes=3), lambda model: model(pixels(size))

    return build


def _clip_resnet() -> tuple[nn.Module, Run]:
    import_timm()
    from timm.models.byobnet import ByoBlockCfg, ByobNet, ByoModelCfg

    blocks = tuple(ByoBlockCfg(type="bottle", d=1, c=64, s=s, br=0.25) for s in (1, 2))
    config = ByoModelCfg(
        blocks=blocks, stem_chs=(8,), stem_type="", stem_pool="avg2", head_type="attn_abs", head_hidden_size=64
    )
    return ByobNet(config, num_classes=3, img_size=16), lambda model: model(pixels())


def _timm_cases() -> list[Case]:
    vit = {"img_size": 16, "patch_size": 8, "embed_dim": DIM, "depth": 2, "num_heads": 4}
    swin = {"img_size": 16, "patch_size": 2, "embed_dim": DIM, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4}
    levit = {"img_size": 32, "embed_dim": (16, 32), "key_dim": 8, "depth": (1, 1), "num_heads": (2, 4)}
    made = {
        "ViT": _timm("vision_transformer", "VisionTransformer", **vit),
        "ViT with attention pooling (SigLIP)": _timm(
            "vision_transformer", "VisionTransformer", **vit, global_pool="map", class_token=False
        ),
        "DeiT (distilled)": _timm("deit", "VisionTransformerDistilled", **vit),
        "EVA-02": _timm("eva", "Eva", **vit, qkv_fused=False, use_rot_pos_emb=True, swiglu_mlp=True),
        "BEiT": _timm("beit", "Beit", **vit, use_rel_pos_bias=True),
        "CaiT": _timm("cait", "Cait", **vit, init_values=1.0),
        "XCiT": _timm("xcit", "Xcit", **vit),
        "Swin": _timm("swin_transformer", "SwinTransformer", **swin),
        "CLIP ResNet (attention pool)": _clip_resnet,
        "LeViT": _timm("levit", "Levit", size=32, **levit),
    }
    return [Case("timm", name, build) for name, build in made.items()]


def _torchmil(name: str, masked: bool = True, **options: Any) -> Callable[[], tuple[nn.Module, Run]]:
    def build() -> tuple[nn.Module, Run]:
        import torchmil.models

        model = getattr(torchmil.models, name)(in_shape=(DIM,), **options)
        return model, (lambda m: m(bags(), REAL)) if masked else (lambda m: m(bags()))

    return build


def _dtfd() -> tuple[nn.Module, Run]:
    import numpy as np
    from torchmil.models import DTFDMIL

    def run(model: nn.Module) -> Tensor:
        np.random.seed(0)  # it shuffles a bag with numpy's global generator
        return model(bags(), REAL)

    return DTFDMIL(in_shape=(DIM,), att_dim=8, n_groups=2), run


def _ft_transformer() -> tuple[nn.Module, Run]:
    from rtdl_revisiting_models import FTTransformer

    options = FTTransformer.get_default_kwargs(n_blocks=2)
    options |= {"d_block": DIM, "attention_n_heads": 4, "attention_dropout": 0.0, "ffn_dropout": 0.0}
    model = FTTransformer(n_cont_features=5, cat_cardinalities=[3], d_out=1, **options)
    x = torch.randn(BAGS, 5, generator=torch.Generator().manual_seed(1))
    return model, lambda m: m(x, torch.zeros(BAGS, 1, dtype=torch.long))


def _encoder() -> tuple[nn.Module, Run]:
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(DIM, 4, 32, batch_first=True), 2, enable_nested_tensor=False
    )
    return model, lambda m: m(bags(), src_key_padding_mask=~REAL)


def _encoder_decoder() -> tuple[nn.Module, Run]:
    return nn.Transformer(DIM, 4, 2, 2, 32, batch_first=True), lambda m: m(bags(), bags()[:, :4])


CASES = [
    Case("torch", "nn.TransformerEncoder", _encoder),
    Case("torch", "nn.Transformer", _encoder_decoder),
    *_transformers(),
    *_timm_cases(),
    Case("torchmil", "ABMIL", _torchmil("ABMIL", att_dim=8)),
    Case("torchmil", "CLAM_SB", _torchmil("CLAM_SB", att_dim=8)),
    Case("torchmil", "DTFDMIL", _dtfd),
    Case("torchmil", "DSMIL", _torchmil("DSMIL", att_dim=8)),
    Case("torchmil", "TransMIL", _torchmil("TransMIL", masked=False, att_dim=8, n_landmarks=4)),
    Case(
        "torchmil",
        "TransformerABMIL",
        _torchmil("TransformerABMIL", pool_att_dim=8, transf_att_dim=8, transf_n_heads=2),
    ),
    Case("torchmil", "SmABMIL", _torchmil("SmABMIL", att_dim=8)),
    Case("rtdl_revisiting_models", "FTTransformer", _ft_transformer),
]


def case(library: str, model: str) -> tuple[nn.Module, Run]:
    """Built, in eval mode."""
    torch.manual_seed(0)
    found = next(one for one in CASES if (one.library, one.model) == (library, model))
    built, run = found.build()
    with torch.no_grad():
        for p in built.parameters():
            if p.dim() > 1:  # fresh models attend evenly, and then nothing extrapolates
                p.normal_(std=p[0].numel() ** -0.5)
    return built.eval(), run
