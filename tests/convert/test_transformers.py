"""extrapolate_ on the real transformers, in one file: importing it takes seconds."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import excora.convert
from checks.zoo import LENGTH, REAL, case, pixels, tokens
from convert.contract import Watch, check_all_layers, check_contract, check_table, convertible, shake
from excora.convert import extrapolate_
from excora.errors import ConversionError

transformers = pytest.importorskip("transformers")
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()


def test_the_table_in_the_docs() -> None:
    check_table("transformers")


@pytest.mark.parametrize("name", convertible("transformers"))
def test_a_converted_model_keeps_the_contract(name: str) -> None:
    check_contract("transformers", name)


@pytest.mark.parametrize("name", convertible("transformers"))
def test_all_layers(name: str) -> None:
    check_all_layers("transformers", name)


def converted(name: str, **options: Any) -> tuple[nn.Module, Any, excora.convert.Conversion]:
    model, run = case("transformers", name)
    conversion = extrapolate_(model, **options)
    shake(conversion)
    return model, run, conversion


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "DistilBERT", "ESM", "GPT-2", "Llama"])
def test_padding_moves_nothing_that_is_visible(name: str) -> None:
    model, run, _ = converted(name, layers="all")
    output = run(model)
    other = tokens()
    other[1, -2:] = 7
    again = model(input_ids=other, attention_mask=REAL.long()).last_hidden_state
    assert torch.equal(again[REAL], output[REAL])
    assert name == "ESM" or not torch.equal(again[~REAL], output[~REAL])  # whose embeddings are 0 there
    alone = model(input_ids=tokens()[1:, :-2]).last_hidden_state
    torch.testing.assert_close(alone[0], output[1, :-2], atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_start_with_padding_before_the_text(name: str, implementation: str) -> None:
    """As docs/convert.md says: a padded query that sees no key differs where theirs sees every key instead."""
    model, _ = case("transformers", name)
    model.set_attn_implementation(implementation)
    real = REAL.flip(1)
    given = {"input_ids": tokens(), "attention_mask": real.long()}
    before = model(**given).last_hidden_state
    extrapolate_(model, layers="all")
    moved = (model(**given).last_hidden_state - before).abs()
    assert moved[real].max() < 1e-5
    assert (moved[~real].max() > 1e-2) == (implementation == "eager" and name != "BERT")


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "T5", "CLIP"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_future_moves_nothing_that_is_past(name: str, implementation: str) -> None:
    model, _ = case("transformers", name)
    model.set_attn_implementation(implementation)
    shake(extrapolate_(model, layers="all"))
    host = model.text_model if name == "CLIP" else model

    def outputs(ids: Tensor, **mask: Any) -> Tensor:
        given = {"input_ids": tokens(), "decoder_input_ids": ids} if name == "T5" else {"input_ids": ids}
        return host(**given, **mask).last_hidden_state

    changed = tokens()
    changed[:, 4] = 6 + changed[:, 4] % 7
    for mask in ({}, {"attention_mask": REAL.long()}):
        first, second = outputs(tokens(), **mask), outputs(changed, **mask)
        torch.testing.assert_close(second[:, :4], first[:, :4], atol=1e-6, rtol=0)
        assert (second[:, 4] - first[:, 4]).abs().max() > 1e-3


def test_the_mask_function_is_registered_with_the_attention_function() -> None:
    """Without one transformers passes None, and for a padded causal batch the padding would be attended to."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model, run, _ = converted("GPT-2")
    for name in ("excora", "excora_eager"):
        assert name in ALL_ATTENTION_FUNCTIONS
        assert name in ALL_MASK_ATTENTION_FUNCTIONS
    right = run(model)
    mask_function = ALL_MASK_ATTENTION_FUNCTIONS._global_mapping.pop("excora")
    try:
        assert (run(model) - right)[REAL].abs().max() < 1e-5  # causal by the layer's own word, padding at the end
        assert (run(model) - right)[~REAL].abs().max() > 1e-4
    finally:
        ALL_MASK_ATTENTION_FUNCTIONS._global_mapping["excora"] = mask_function


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("BERT", REAL[:, None].expand(-1, LENGTH, -1)),
        ("Llama", REAL[:, None] & CAUSAL),
        ("GPT-2", REAL[:, None] & CAUSAL),
    ],
)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_against_the_oracle(name: str, seen: Tensor, implementation: str) -> None:
    model, run = case("transformers", name)
    model.set_attn_implementation(implementation)
    conversion = extrapolate_(model)
    shake(conversion)
    watch = Watch(model.get_submodule(f"{next(iter(conversion.converted))}.extrapolation"))
    run(model)
    watch.compare(seen)


def test_t5_with_its_position_bias_against_the_oracle() -> None:
    model, run = case("transformers", "T5")
    conversion = extrapolate_(model, include="decoder.block.1.layer.0.*")
    shake(conversion)
    first, layer = (model.decoder.block[i].layer[0].SelfAttention for i in (0, 1))
    watch = Watch(layer.extrapolation)
    run(model)
    bias = first.compute_bias(5, 5)[0]  # the layers share the bias of the first
    watch.compare(CAUSAL[:5, :5].expand(2, -1, -1), bias, scaling=1.0)


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "T5", "CLIP", "Wav2Vec2"])
def test_weights_on_request(name: str) -> None:
    """SDPA never returns them: of converted layers and of the others."""
    model, _ = case("transformers", name)
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    extrapolate_(model)
    given = {"input_ids": tokens(), "attention_mask": REAL.long()}
    if name == "T5":
        given["decoder_input_ids"] = tokens()[:, :5]
    if name == "Wav2Vec2":
        given = {"input_values": torch.randn(2, 400)}
    if name == "CLIP":
        model, eager, given = model.vision_model, eager.vision_model, {"pixel_values": pixels()}
    ours, theirs = (m(**given, output_attentions=True) for m in (model, eager))
    kinds = ("decoder_attentions", "cross_attentions", "encoder_attentions") if name == "T5" else ("attentions",)
    for kind in kinds:
        assert len(ours[kind]) == 2
        for mine, other in zip(ours[kind], theirs[kind], strict=True):
            torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)


def test_other_layers_compute_what_they_did() -> None:
    for implementation in ("sdpa", "eager"):
        model, _ = case("transformers", "BERT")
        model.set_attn_implementation(implementation)
        seen: list[Tensor] = []
        model.encoder.layer[0].register_forward_hook(lambda *call, into=seen: into.append(call[-1]))
        given = {"input_ids": tokens(), "attention_mask": REAL.long()}
        model(**given)
        shake(extrapolate_(model))
        model(**given)
        assert torch.equal(*(x[0] if isinstance(x, tuple) else x for x in seen))


def test_generation_with_a_cache_equals_the_whole_sequence() -> None:
    model, _, _ = converted("Llama", layers="all")
    ids = tokens()
    whole = model(input_ids=ids).last_hidden_state
    step = model(input_ids=ids[:, :4], use_cache=True)
    parts = [step.last_hidden_state]
    for i in range(4, LENGTH):
        step = model(input_ids=ids[:, i : i + 1], past_key_values=step.past_key_values, use_cache=True)
        parts.append(step.last_hidden_state)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=2e-5, rtol=0)


def test_their_own_checkpointing() -> None:
    grads = []
    for checkpointed in (False, True):
        model, run, conversion = converted("BERT")
        model.train().requires_grad_(True)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        if checkpointed:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        torch.manual_seed(0)
        shake(conversion)
        run(model).square().sum().backward()
        grads.append([p.grad for p in conversion.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_compiles_in_one_graph_with_a_mask() -> None:
    model, _, _ = converted("BERT")
    given = {"input_ids": tokens(), "attention_mask": REAL.long()}
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(**given).last_hidden_state, model(**given).last_hidden_state)


def test_declined_models_say_why() -> None:
    with pytest.raises(ConversionError, match=r"Gemma2Attention: its logits are capped") as caught:
        extrapolate_(case("transformers", "Gemma 2")[0])
    assert "register_adapter(" in str(caught.value)
    with pytest.raises(ConversionError, match=r"DisentangledSelfAttention: it does not use .* attention interface"):
        extrapolate_(case("transformers", "DeBERTa")[0])
    model, _ = case("transformers", "BERT")
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(ConversionError, match=r"is 'flash_attention_2': model.set_attn_implementation\(\"sdpa\"\)"):
        extrapolate_(model)


def test_a_config_that_does_not_take_the_name_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    model, run = case("transformers", "BERT")
    before, kind = run(model), type(model.config)
    monkeypatch.setattr(kind, "_attn_implementation", property(lambda _: "sdpa"))
    with pytest.raises(ConversionError, match="of a converted BertSelfAttention is 'sdpa'"):
        extrapolate_(model)
    monkeypatch.undo()
    assert torch.equal(run(model), before)
    assert "extrapolation" not in dict(model.named_modules())


def test_another_implementation_after_the_conversion_is_noticed() -> None:
    model, run, conversion = converted("BERT")
    output = run(model)
    model.set_attn_implementation("sdpa")
    with pytest.raises(ConversionError, match="of a converted BertSelfAttention is 'sdpa', so that"):
        run(model)
    model.set_attn_implementation("excora")
    assert torch.equal(run(model), output)
    conversion.undo()
    model.set_attn_implementation("eager")
    run(model)


def test_half_precision_and_autocast() -> None:
    model, run = case("transformers", "BERT")
    with torch.autocast("cpu", torch.bfloat16):
        before = run(model)
        conversion = extrapolate_(model)
        torch.testing.assert_close(run(model), before, atol=2e-2, rtol=0)
        shake(conversion)
        run(model).float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in conversion.parameters())
    conversion.undo()
    model.bfloat16()
    before = run(model)
    conversion = extrapolate_(model)
    assert {p.dtype for p in conversion.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(run(model), before, atol=2e-2, rtol=0)


def test_importing_the_converter_imports_no_library() -> None:
    code = "import sys, excora.convert; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"transformers", "timm", "torchmil", "peft", "safetensors"} & set(found.stdout.split())


def test_a_layer_that_calls_its_width_head_size_converts() -> None:
    config = transformers.GPTNeoXConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, vocab_size=99
    )
    model = transformers.GPTNeoXModel(config).eval()
    before = model(input_ids=tokens(), attention_mask=REAL.long()).last_hidden_state
    conversion = extrapolate_(model)
    after = model(input_ids=tokens(), attention_mask=REAL.long()).last_hidden_state
    assert list(conversion.converted) == ["layers.1.attention"]
    torch.testing.assert_close(after[REAL], before[REAL], atol=1e-5, rtol=0)


@pytest.mark.skipif(not hasattr(transformers, "DeepseekV32Config"), reason="this transformers has no DeepSeek V3.2")
def test_attention_to_chosen_keys_is_left_alone() -> None:
    """It masks what was not chosen for "eager" and "sdpa" by name: under another name it attended to everything."""
    sizes = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1, "vocab_size": 99, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8}
    parts = {"qk_rope_head_dim": 8, "v_head_dim": 8, "qk_nope_head_dim": 8, "first_k_dense_replace": 1}
    index = {"index_topk": 3, "index_head_dim": 16, "index_n_heads": 2, "max_position_embeddings": 64}
    model = transformers.DeepseekV32Model(transformers.DeepseekV32Config(**sizes, **heads, **parts, **index)).eval()
    before = model(input_ids=tokens()).last_hidden_state
    with pytest.raises(ConversionError, match=r"chosen keys alone \(indices\)"):
        extrapolate_(model)
    assert torch.equal(model(input_ids=tokens()).last_hidden_state, before)
