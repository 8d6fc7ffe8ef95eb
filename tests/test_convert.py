"""extrapolate_ on nn.TransformerEncoder, Decoder and the real torchmil: same outputs, same objects, exact undo."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchmil.nn.attention import AttentionPool, ProbSmoothAttentionPool, SmAttentionPool

from excora.attention import ExtrapolativeAttention
from excora.convert import extrapolate_
from excora.errors import ConversionError, InputError
from excora.pooling import parameter_groups
from excora.reduce import penalties

BAGS, LENGTH, DIM = 3, 5, 8
HIDDEN = torch.arange(LENGTH) >= torch.tensor([[5], [3], [4]])


def encoder(**options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(DIM, 2, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2)


def set_gamma(model: nn.Module, gamma: float) -> None:
    """gamma = 4 / (1 + 3 exp(-raw)), solved for raw, in every attention layer."""
    for module in model.modules():
        if isinstance(module, ExtrapolativeAttention):
            nn.init.constant_(module.extrapolation.gain.bias, -math.log((4.0 / gamma - 1.0) / 3.0))


class Host(nn.Module):
    """An attention that two names share, one of its own, and a torchmil pool."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.MultiheadAttention(DIM, 2, batch_first=True)
        self.again = self.first
        self.second = nn.MultiheadAttention(DIM, 4, batch_first=True)
        self.pool = AttentionPool(DIM, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.first, self.again, self.second):
            x = layer(x, x, x, need_weights=False)[0]
        return self.pool(x)


# Torch's own warning, from the fused path of the encoder before its conversion.
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_fused_path_does_not_bypass_a_converted_encoder() -> None:
    model = encoder().eval()
    x = torch.randn(BAGS, LENGTH, DIM)
    with torch.no_grad():
        before = model(x, src_key_padding_mask=HIDDEN)
        plain = model(x)
        conversion = extrapolate_(model, layers="all")
        start = model(x, src_key_padding_mask=HIDDEN)
        torch.testing.assert_close(start[~HIDDEN], before[~HIDDEN], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model(x), plain, atol=1e-5, rtol=1e-5)
        set_gamma(model, 2.0)
        after = model(x, src_key_padding_mask=HIDDEN)
        torch.testing.assert_close(model.layers[0].self_attn.last_details["gamma"], torch.full((BAGS, 2, 1), 2.0))
        assert ((after - start)[~HIDDEN].abs().amax(-1) > 1e-3).all()
        assert ((model(x) - plain).abs().amax(-1) > 1e-3).all()
        conversion.undo()
        assert model.use_nested_tensor
        assert torch.equal(model(x, src_key_padding_mask=HIDDEN), before)


def test_a_causal_encoder_and_a_decoder_stay_causal() -> None:
    model = nn.Transformer(DIM, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    x, y = torch.randn(BAGS, LENGTH, DIM), torch.randn(BAGS, LENGTH, DIM, requires_grad=True)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    before = model(x, y, tgt_mask=mask, tgt_is_causal=True)
    extrapolate_(model, layers="all")
    torch.testing.assert_close(model(x, y, tgt_mask=mask, tgt_is_causal=True), before, atol=1e-5, rtol=1e-5)
    set_gamma(model, 3.0)
    for causal in (True, False):
        (grad,) = torch.autograd.grad(model(x, y, tgt_mask=mask, tgt_is_causal=causal)[:, 1].square().sum(), y)
        assert (grad[:, 2:] == 0).all()
        assert (grad[:, :2] != 0).any()


def test_identity_hooks_optimiser_and_keys_stay() -> None:
    model, x = Host(), torch.randn(BAGS, LENGTH, DIM)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(x).sum().backward()
    optimizer.step()
    calls: list[nn.Module] = []
    model.first.register_forward_hook(lambda module, *_: calls.append(module))
    first, keys, before = model.first, list(model.state_dict()), model(x)
    calls.clear()
    conversion = extrapolate_(model, layers="all")
    torch.testing.assert_close(model(x), before, atol=1e-5, rtol=1e-5)
    assert model.first is first is model.again
    assert calls == [first, first]
    assert [key for key in model.state_dict() if key in keys] == keys
    assert list(conversion.converted) == ["first", "second", "pool"]
    new = {id(p) for p in conversion.parameters()}
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert new | known == {id(p) for p in model.parameters()}
    assert not new & known
    assert "add_param_group" in str(conversion)
    optimizer.add_param_group({"params": conversion.parameters(), "weight_decay": 0.0})
    assert {id(p) for p in parameter_groups(model, 0.1)[1]["params"]} == new
    assert penalties(model).count.tolist() == [BAGS * 2, BAGS * 4, BAGS]


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


def test_a_failure_changes_nothing() -> None:
    model, x = Host(), torch.randn(BAGS, LENGTH, DIM)
    before = model(x)
    with pytest.raises(InputError, match="cap"):
        extrapolate_(model, cap=0.5)
    model.pool.fc1.module.in_features = 0  # the pool comes last and fails
    with pytest.raises(InputError, match="dim"):
        extrapolate_(model, layers="all")
    assert {type(m) for m in (model.first, model.second)} == {nn.MultiheadAttention}
    assert type(model.pool) is AttentionPool
    assert torch.equal(model(x), before)


@pytest.mark.parametrize(
    ("selection", "converted"),
    [
        ({"include": "layers.0.*"}, ["layers.0.self_attn"]),
        ({"exclude": ["layers.0.*"]}, ["layers.1.self_attn"]),
        ({"include": nn.MultiheadAttention, "exclude": "*.1.*"}, ["layers.0.self_attn"]),
        ({"include": lambda name, module: "1" in name and module.num_heads == 2}, ["layers.1.self_attn"]),
    ],
)
def test_include_and_exclude(selection: dict[str, Any], converted: list[str]) -> None:
    model = encoder()
    conversion = extrapolate_(model, layers="all", **selection)
    assert list(conversion.converted) == converted
    assert len(conversion.left) == 1
    assert sum(isinstance(m, ExtrapolativeAttention) for m in model.modules()) == 1


class Mine(nn.MultiheadAttention):
    pass


class StrangeAttention(nn.Module):
    pass


class DistributedDataParallel(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def test_what_is_left_alone_has_a_reason() -> None:
    patched = nn.MultiheadAttention(DIM, 2)
    patched.forward = patched.forward
    lazy = AttentionPool()
    modules = {"mine": Mine(DIM, 2), "strange": StrangeAttention(), "patched": patched, "lazy": lazy}
    modules |= {"sm": SmAttentionPool(DIM, 4), "prob": ProbSmoothAttentionPool(DIM, 4)}
    with pytest.raises(ConversionError, match="found nothing to convert") as caught:
        extrapolate_(nn.ModuleDict(modules))
    reasons = {
        "mine": "subclass",
        "strange": "no adapter",
        "patched": "forward was replaced",
        "lazy": "run one batch first",
    }
    for name, reason in {**reasons, "sm": "adjacency", "prob": "sampled"}.items():
        assert any(name in line and reason in line for line in str(caught.value).splitlines())
    lazy(torch.randn(BAGS, LENGTH, DIM))
    assert list(extrapolate_(nn.ModuleDict(modules)).converted) == ["lazy"]


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ConversionError, match=r"nn.MultiheadAttention .* seen: none"):
        extrapolate_(nn.Linear(2, 2))
    model = encoder()
    extrapolate_(model, layers="all")
    with pytest.raises(ConversionError, match="nothing is left to convert"):
        extrapolate_(model)
    with pytest.raises(ConversionError, match="'layer' fits none"):
        extrapolate_(encoder(), include="layer")
    with pytest.raises(ConversionError, match="before wrapping"):
        extrapolate_(DistributedDataParallel(encoder()))
    nested = torch.nested.nested_tensor([torch.randn(2, DIM), torch.randn(3, DIM)], layout=torch.jagged)
    with pytest.raises(InputError, match="pass padded tensors and key_padding_mask instead"):
        model.layers[0].self_attn(nested, nested, nested)


def test_dtype_frozen_layers_and_the_model_itself() -> None:
    model = nn.MultiheadAttention(DIM, 2, dtype=torch.float64).requires_grad_(False)
    conversion = extrapolate_(model)
    assert list(conversion.converted) == [""]
    assert "(the model itself)" in str(conversion)
    assert "frozen" in str(conversion)
    assert {(p.dtype, p.requires_grad) for p in conversion.parameters()} == {(torch.float64, False)}
    trained = extrapolate_(AttentionPool(DIM, 4).double())
    assert {(p.dtype, p.requires_grad) for p in trained.parameters()} == {(torch.float64, True)}
    switched = extrapolate_(Host(), layers="all", residual=None)
    assert sum(p.numel() for p in switched.parameters()) == 2 * (2 + 4) + 2


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
