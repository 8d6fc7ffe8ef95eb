"""register_adapter, which layers are the last ones, and the files of a conversion."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conversions import Watch, check_table, rows_in_docs, shake
from torch import Tensor, nn

from checks.zoo import CASES
from excora import extrapolate_, register_adapter
from excora.convert import Converted
from excora.convert.adapter import EXAMPLE, REGISTERED
from excora.convert.hosted import read_mask, with_bias
from excora.convert.stacks import last_of_each_stack
from excora.errors import ConversionError, InputError
from excora.reduce import penalties
from excora.visibility import Visibility


class Mixer(nn.Module):
    """Attends, without the word in its name and without an attribute that counts heads."""

    def __init__(self, calls: int = 1) -> None:
        super().__init__()
        self.qkv, self.calls = nn.Linear(8, 24), calls

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.parts(x)
        for _ in range(self.calls):
            q = F.scaled_dot_product_attention(q, k, v, mask)
        return q.transpose(1, 2).flatten(2)


class ByHand(Mixer):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        return ((q @ k.transpose(2, 3) / 2.0).softmax(-1) @ v).transpose(1, 2).flatten(2)


class ByHandConverted(Converted):
    def forward(self, x: Tensor) -> Tensor:
        return self.extrapolation(*self.parts(x)).output.transpose(1, 2).flatten(2)


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = list(REGISTERED)
    yield
    REGISTERED[:] = before


def size(_: nn.Module) -> tuple[int, int]:
    return 4, 2


@pytest.mark.parametrize("how", [Mixer, f"{__name__}.Mixer", lambda module: type(module) is Mixer])
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


def test_masks_of_a_rerouted_layer() -> None:
    register_adapter(Mixer, size=size)
    layer, x = Mixer(), torch.randn(2, 5, 8)
    shake(extrapolate_(layer))
    seen = torch.rand(2, 5, 5) < 0.6
    seen[0, 2] = False
    bias = torch.randn(2, 5, 5)
    for mask, given in ((seen[:, None], None), (bias.masked_fill(~seen[0], -1e9)[None], bias)):
        watch = Watch(layer.extrapolation)
        layer(x, mask)
        visible = seen if given is None else seen[:1].expand(2, -1, -1)
        watch.compare(visible, given)
        assert watch.calls[0][1].output.isfinite().all()


def test_a_mixin_and_a_reason() -> None:
    register_adapter(ByHand, size=size, mixin=ByHandConverted, declines=lambda m: "too odd" if m.calls == 3 else "")
    layer, x = ByHand(), torch.randn(2, 5, 8)
    before = layer(x)
    shake(extrapolate_(layer, cap=2.0))
    assert (layer(x) - before).abs().max() > 1e-3
    with pytest.raises(ConversionError, match=r"\(the model itself\): ByHand: too odd"):
        extrapolate_(ByHand(3))


def test_a_layer_that_does_not_do_what_was_promised() -> None:
    register_adapter(Mixer, size=size)
    register_adapter(ByHand, size=size)
    for layer, times in ((Mixer(2), 2), (ByHand(), 0)):
        extrapolate_(layer)
        with pytest.raises(ConversionError, match=rf"once and called it {times} times.*mixin"):
            layer(torch.randn(2, 5, 8))
    with pytest.raises(InputError, match="size="):
        register_adapter(Mixer, size=(4, 2))
    with pytest.raises(InputError, match=r"subclass of excora\.convert\.Converted"):
        register_adapter(Mixer, size=size, mixin=nn.Module)
    taken = Mixer()
    taken.extrapolation = 3
    with pytest.raises(ConversionError, match="something else in its attribute"):
        extrapolate_(taken)
    assert type(taken) is Mixer


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


def attention() -> nn.MultiheadAttention:
    return nn.MultiheadAttention(8, 2)


def block(**more: nn.Module) -> nn.Module:
    parent = nn.Module()
    for name, module in more.items():
        parent.add_module(name, module)
    return parent


@pytest.mark.parametrize(
    ("model", "last"),
    [
        (attention, [""]),
        (lambda: nn.ModuleList(block(a=attention()) for _ in range(12)), ["11.a"]),
        (lambda: nn.Sequential(attention(), block(a=attention()), nn.Linear(1, 1)), ["1.a"]),
        (lambda: block(blocks=nn.ModuleList([attention(), attention()]), pool=attention()), ["pool"]),
        (lambda: block(first=attention(), blocks=nn.ModuleList([attention(), attention()])), ["blocks.1"]),
        (lambda: block(encoder=nn.Sequential(attention()), pool=attention(), head=nn.Linear(1, 1)), ["pool"]),
        (lambda: block(text=block(a=attention()), image=block(a=attention())), ["text.a", "image.a"]),
        (lambda: block(text=block(a=attention()), image=block(a=attention()), fusion=attention()), ["fusion"]),
        (lambda: block(layer1=block(a=attention()), layer2=block(a=attention(), b=attention())), ["layer2.b"]),
        (lambda: nn.ModuleList([block(att=block(s=attention()), cross=block(s=attention()))]), ["0.cross.s"]),
        (lambda: nn.ModuleList([block(x=block(a=attention())), block(x=nn.Linear(1, 1))]), ["0.x.a"]),
        (lambda: nn.Linear(1, 1), []),
    ],
)  # fmt: skip
def test_the_last_of_each_stack(model: Any, last: list[str]) -> None:
    built = model()
    names = {module: name for name, module in built.named_modules()}
    layers = {module for module in names if isinstance(module, nn.MultiheadAttention)}
    assert [names[module] for module in last_of_each_stack(built, layers)] == last


def test_last_is_the_default_and_counts_after_include() -> None:
    def model() -> nn.Module:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3)

    conversion = extrapolate_(model())
    assert list(conversion.converted) == ["layers.2.self_attn"]
    assert all("not the last of its stack" in why for why in conversion.left.values())
    assert list(extrapolate_(model(), exclude="layers.2.*").converted) == ["layers.1.self_attn"]
    assert len(extrapolate_(model(), layers="all").converted) == 3
    with pytest.raises(InputError, match="layers must be 'last' or 'all', got 'first'"):
        extrapolate_(model(), layers="first")


def test_reading_masks() -> None:
    padding = torch.tensor([[True, True, False]])[:, None, None]
    for mask in (padding, padding.expand(1, 1, 4, 3), torch.zeros(1, 1, 1, 3).masked_fill(~padding, -1e9)):
        read = read_mask(mask, 3)
        assert read.keys is not None
        assert read.pairs is None
        assert torch.equal(read.keys, padding)
    assert read_mask(torch.ones(4, 3, dtype=torch.bool), 3).pairs.shape == (1, 1, 4, 3)
    assert read_mask(None, 3, causal=True) == Visibility(None, None, None, True)
    with pytest.raises(InputError, match="not both"):
        read_mask(padding, 3, causal=True)
    causal = with_bias(Visibility(None, None, None, True), torch.zeros(1, 2, 3, 3), 3, 3)
    assert torch.equal(causal.pairs[0, 0], torch.ones(3, 3, dtype=torch.bool).tril())
    assert with_bias(Visibility(None, None, None, False), torch.zeros(1, 2, 3, 3), 3, 3).keys.all()


def test_the_table_in_the_docs_has_a_row_a_model() -> None:
    """What is in the rows is compared where the libraries are imported anyway: test_convert_*.py."""
    for library in {one.library for one in CASES}:
        assert len(rows_in_docs(library)) == len([one for one in CASES if one.library == library])
    check_table("torch")
