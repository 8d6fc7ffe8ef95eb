"""A conversion: undone to the bit, and on disk, by our files, those of transformers and of PEFT, and pickle."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import excora.convert
from checks.zoo import REAL, case, tokens
from convert.contract import shake
from convert.samples import BAGS, DIM, LENGTH, Host, encoder
from excora.convert import extrapolate_
from excora.errors import ConversionError


def test_undo_restores_class_attributes_and_output_to_the_bit() -> None:
    model, x = Host(), torch.randn(BAGS, LENGTH, DIM)
    before = model(x)
    modules = list(model.modules())
    was = [(type(m), set(vars(m)), list(m._parameters), list(m._modules)) for m in modules]
    flags = [getattr(m, "_qkv_same_embed_dim", None) for m in modules]
    conversion = extrapolate_(model, layers="all")
    model(x)
    model.first.note = "mine"
    conversion.undo()
    conversion.undo()
    assert model.first.note == "mine"
    del model.first.note
    assert [(type(m), set(vars(m)), list(m._parameters), list(m._modules)) for m in model.modules()] == was
    assert [getattr(m, "_qkv_same_embed_dim", None) for m in modules] == flags
    assert torch.equal(model(x), before)
    assert len(extrapolate_(model, layers="all").converted) == 3


@pytest.mark.parametrize("build", [encoder, Host])
def test_old_and_new_checkpoints_load_strictly(build: Any) -> None:
    old, new, x = build().eval(), build().eval(), torch.randn(BAGS, LENGTH, DIM)
    conversion = extrapolate_(new, layers="all")
    for parameter in conversion.parameters():
        nn.init.normal_(parameter)
    kept, twin = copy.deepcopy(new.state_dict()), pickle.loads(pickle.dumps(new))
    trained = new(x)
    assert torch.equal(twin(x), trained)
    given = old.state_dict()
    names = list(given)
    new.load_state_dict(given, strict=True)
    assert list(given) == names
    torch.testing.assert_close(new(x), old(x), atol=1e-5, rtol=1e-5)
    new.load_state_dict(kept, strict=True)
    assert torch.equal(new(x), trained)
    assert (trained - old(x)).abs().max() > 1e-3


def converted(name: str, **options: Any) -> tuple[nn.Module, Any, excora.convert.Conversion]:
    model, run = case("transformers", name)
    conversion = extrapolate_(model, **options)
    shake(conversion)
    return model, run, conversion


def test_files_of_a_conversion(tmp_path: Path) -> None:
    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()

    trained, fresh, x = model(), model(), torch.randn(2, 5, 8)
    conversion = extrapolate_(trained, layers="all", cap=2.0, residual="paper")
    shake(conversion)
    conversion.save(tmp_path / "new" / "folder")
    loaded = excora.convert.load(fresh, tmp_path / "new" / "folder")
    assert torch.equal(fresh(x), trained(x))
    assert loaded.options == conversion.options
    record = tmp_path / "new" / "folder" / "excora.json"
    record.write_text(record.read_text().replace('"cap": 2.0', '"cap": 2.0, "os": 1'))
    broken = model()
    with pytest.raises(TypeError, match="os"):
        excora.convert.load(broken, record.parent)
    assert all(type(layer.self_attn) is nn.MultiheadAttention for layer in broken.layers)
    conversion.save(record.parent)
    small = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 4, 16, batch_first=True), 2)
    with pytest.raises(ConversionError, match="these differ"):
        excora.convert.load(small, record.parent)
    assert all(type(layer.self_attn) is nn.MultiheadAttention for layer in small.layers)
    record.write_text(json.dumps({"format": "other"}))
    with pytest.raises(ConversionError, match="not the record of a conversion"):
        excora.convert.load(model(), record.parent)


def test_a_file_that_reads_back_otherwise_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversion = extrapolate_(nn.MultiheadAttention(8, 2))
    real = excora.convert.conversion._safetensors()
    wrong = (real[0], lambda path: {name: x + 1 for name, x in real[1](path).items()})
    monkeypatch.setattr(excora.convert.conversion, "_safetensors", lambda: wrong)
    with pytest.raises(ConversionError, match="read again, does not hold"):
        conversion.save(tmp_path)


def test_save_pretrained_and_back(tmp_path: Any) -> None:
    """Their files lose what was added, without an error; ours bring it back, and are checked."""
    model, run, conversion = converted("BERT", temperature=(0.5, 0.1), cap=3.0)
    output = run(model)
    model.save_pretrained(tmp_path)
    conversion.save(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    plain = type(model).from_pretrained(tmp_path).eval()
    assert (run(plain) - output).abs().max() > 1e-3
    loaded = excora.convert.load(plain, tmp_path)
    assert list(loaded.converted) == list(conversion.converted)
    assert loaded.options == conversion.options
    assert torch.equal(run(plain), output)
    loaded.undo()
    with pytest.raises(ConversionError, match=r"convertible layers .*attention.self.* it has \['h.0.attn'"):
        excora.convert.load(case("transformers", "GPT-2")[0], tmp_path)


def test_inside_from_pretrained_it_is_refused(tmp_path: Any) -> None:
    """transformers 5.22 would leave the new parameters as the memory was, and call them newly initialised."""
    model, _ = case("transformers", "BERT")
    model.save_pretrained(tmp_path)

    class Eager(type(model)):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            extrapolate_(self)

    with pytest.raises(ConversionError, match=r"inside from_pretrained.*load, then convert"):
        Eager.from_pretrained(tmp_path)


def test_pickle_and_a_model_inside_another() -> None:
    model, run = case("transformers", "ViT")
    host = nn.Sequential(nn.Identity(), model)
    conversion = extrapolate_(host)
    assert list(conversion.converted) == ["1.layers.1.attention"]
    shake(conversion)
    assert torch.equal(run(pickle.loads(pickle.dumps(model))), run(model))


def test_conversions_that_share_a_config_end_one_by_one() -> None:
    """Of one model, and of two models built from one config: it names ours until the last one is undone."""
    model, run = case("transformers", "BERT")
    twin = type(model)(model.config).eval()
    before = run(model), run(twin)
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        parts = (model, "encoder.layer.0.*"), (model, "encoder.layer.1.*"), (twin, None)
        conversions = [extrapolate_(host, include=include) for host, include in parts]
        for i in order:
            conversions[i].undo()
            for host, expected in zip((model, twin), before, strict=True):
                torch.testing.assert_close(run(host), expected, atol=1e-5, rtol=0)
        assert model.config._attn_implementation == "sdpa"
    extrapolate_(model)
    copied = pickle.loads(pickle.dumps(model))
    extrapolate_(copied, include="encoder.layer.0.*").undo()
    assert torch.equal(run(copied), run(model))


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_pickled_model_runs_in_a_fresh_process(tmp_path: Path, implementation: str) -> None:
    model, run = case("transformers", "BERT")
    model.set_attn_implementation(implementation)
    shake(extrapolate_(model))
    given = {"input_ids": tokens(), "attention_mask": REAL.long()}
    torch.save((model, given, run(model)), tmp_path / "whole.pt")
    code = (
        "import sys, torch; model, given, was = torch.load(sys.argv[1], weights_only=False); "
        "torch.testing.assert_close(model(**given).last_hidden_state, was)"
    )
    call = [sys.executable, "-c", code, tmp_path / "whole.pt"]
    found = subprocess.run(call, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-500:]


def test_peft_trains_and_saves_what_was_added(tmp_path: Any) -> None:
    peft = pytest.importorskip("peft")
    model, run = case("transformers", "BERT")
    conversion = extrapolate_(model)
    assert conversion.modules_to_save == ["extrapolation"]
    lora = {"r": 2, "target_modules": ["query", "value"]}
    inert = peft.get_peft_model(copy.deepcopy(model), peft.LoraConfig(**lora)).train()
    with pytest.warns(UserWarning, match=r"frozen where it started .* modules_to_save=conversion.modules_to_save"):
        run(inert)
    tuned = peft.get_peft_model(model, peft.LoraConfig(**lora, modules_to_save=conversion.modules_to_save)).train()
    torch.manual_seed(1)
    run(tuned).square().sum().backward()
    ours = {name: p for name, p in tuned.named_parameters() if p.requires_grad and ".extrapolation." in name}
    assert len(ours) == 4
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in ours.values())
    assert any("lora_A" in name and p.grad is not None for name, p in tuned.named_parameters())
    with torch.no_grad():
        for p in ours.values():
            p.normal_()
    output = run(tuned.eval())
    tuned.save_pretrained(tmp_path)
    fresh, _ = case("transformers", "BERT")
    extrapolate_(fresh)
    back = peft.PeftModel.from_pretrained(fresh, tmp_path).eval()
    assert torch.equal(run(back), output)


def test_files_of_a_conversion_inside_peft(tmp_path: Path) -> None:
    """What is called is kept, by the names of a model that PEFT has not wrapped."""
    peft = pytest.importorskip("peft")
    model, run, conversion = converted("BERT")
    before, names = run(model), list(conversion.named_parameters())
    settings = peft.LoraConfig(r=2, target_modules=["query"], modules_to_save=conversion.modules_to_save)
    tuned = peft.get_peft_model(model, settings)
    assert list(conversion.named_parameters()) == names
    assert {id(p) for p in conversion.parameters()} <= {id(p) for p in tuned.parameters() if p.requires_grad}
    shake(conversion)
    for context in (nullcontext(), tuned.disable_adapter()):  # without the adapter as before it
        with context:
            conversion.save(tmp_path)
            output = run(tuned.eval())
        fresh, _ = case("transformers", "BERT")
        excora.convert.load(fresh, tmp_path)
        assert torch.equal(run(fresh), output)
    assert torch.equal(output, before)


def test_lora_on_a_whole_attention_layer(tmp_path: Path) -> None:
    """The way of docs/convert.md, as PEFT refuses modules_to_save inside such a layer."""
    peft = pytest.importorskip("peft")
    model, run = case("torch", "nn.TransformerEncoder")
    conversion = extrapolate_(model)
    both = peft.LoraConfig(target_modules=["self_attn"], modules_to_save=conversion.modules_to_save)
    with pytest.raises(ValueError, match=r"child of .*MultiheadAttention"):
        peft.get_peft_model(copy.deepcopy(model), both)
    tuned = peft.get_peft_model(model, peft.LoraConfig(target_modules=["self_attn"])).train()
    for parameter in conversion.parameters():
        parameter.requires_grad_(True)
    run(tuned).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in conversion.parameters())
    shake(conversion)
    conversion.save(tmp_path)
    fresh, _ = case("torch", "nn.TransformerEncoder")
    excora.convert.load(fresh, tmp_path)
    torch.testing.assert_close(run(fresh), run(tuned.eval()))  # LoRA starts at zero
