"""Which layers are the last ones."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from excora import extrapolate_
from excora.convert.stacks import last_of_each_stack
from excora.errors import InputError


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
