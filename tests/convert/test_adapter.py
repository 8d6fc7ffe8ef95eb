"""register_adapter, and what is left alone."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchmil.nn.attention import AttentionPool, ProbSmoothAttentionPool, SmAttentionPool

from convert.contract import Watch, shake
from convert.samples import BAGS, DIM, LENGTH, ByHand, Mixer, size
from excora import register_adapter
from excora.convert import Converted, extrapolate_
from excora.convert.adapter import EXAMPLE
from excora.errors import ConversionError
from excora.reduce import penalties


class Mine(nn.MultiheadAttention):
    pass


class StrangeAttention(nn.Module):
    pass


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


class ByHandConverted(Converted):
    def forward(self, x: Tensor) -> Tensor:
        return self.extrapolation(*self.parts(x)).output.transpose(1, 2).flatten(2)


def test_a_layer_of_your_own_compiles_in_one_graph() -> None:
    """It unflattens, which is Python code of torch's."""
    register_adapter(Mixer, size=size)
    layer, x = Mixer(), torch.randn(2, 5, 8)
    shake(extrapolate_(layer))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.parametrize("how", [Mixer, f"{Mixer.__module__}.Mixer", lambda module: type(module) is Mixer])
def test_a_layer_of_your_own(how: Any) -> None:
    model, x = nn.Sequential(Mixer(), Mixer()), torch.randn(2, 5, 8)
    before = model(x)
    with pytest.raises(ConversionError, match=r"seen: none\n.*one call away"):
        extrapolate_(model)
    take_back = register_adapter(how, size=size)
    conversion = extrapolate_(model)
    assert list(conversion.converted) == ["1"]
    assert isinstance(model[1], Mixer)
    torch.testing.assert_close(model(x), before)
    shake(conversion)
    watch = Watch(model[1].extrapolation)
    moved = model(x)
    watch.compare(torch.ones(2, 5, 5, dtype=torch.bool))
    assert len(penalties(model).sum) == 1
    assert torch.equal(copy.deepcopy(model)(x), moved)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), moved)
    conversion.undo()
    assert torch.equal(model(x), before)
    take_back()
    take_back()
    with pytest.raises(ConversionError, match="nothing to convert"):
        extrapolate_(model)


def test_a_mixin_and_a_reason() -> None:
    register_adapter(ByHand, size=size, mixin=ByHandConverted, declines=lambda m: "too odd" if m.calls == 3 else "")
    layer, x = ByHand(), torch.randn(2, 5, 8)
    before = layer(x)
    shake(extrapolate_(layer, cap=2.0))
    assert (layer(x) - before).abs().max() > 1e-3
    with pytest.raises(ConversionError, match=r"\(the model itself\): ByHand: too odd"):
        extrapolate_(ByHand(3))


def test_a_subclass_is_left_alone_and_yours_comes_first() -> None:
    register_adapter(Mixer, size=size)
    with pytest.raises(ConversionError, match="ByHand: a subclass"):
        extrapolate_(ByHand())
    register_adapter(nn.MultiheadAttention, size=size, declines=lambda _: "mine")
    with pytest.raises(ConversionError, match="MultiheadAttention: mine"):
        extrapolate_(nn.MultiheadAttention(8, 2))


def test_the_example_of_the_error_is_code_that_works() -> None:
    class MyAttention(Mixer):
        head_dim, num_heads = 4, 2

    with pytest.raises(ConversionError, match="MyAttention: no adapter for this class") as caught:
        extrapolate_(MyAttention())
    assert EXAMPLE in str(caught.value)
    exec("\n".join(line[2:] for line in EXAMPLE.splitlines()), {"MyAttention": MyAttention})
    assert extrapolate_(MyAttention()).converted == {"": "MyAttention -> ExtrapolativeMyAttention"}


def test_layers_that_attend_are_named_without_the_word() -> None:
    class Gadget(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n_heads, self.proj = 2, nn.Linear(2, 2)

    model = nn.ModuleDict({"outer": nn.Sequential(Gadget()), "known": nn.MultiheadAttention(8, 2)})
    assert extrapolate_(model).left == {"outer.0": "Gadget: no adapter for this class"}
