"""A converted nn.TransformerEncoder with padding: the same output in every row and mode, past no fused path."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from excora.attention import ExtrapolativeAttention
from excora.convert import extrapolate_

BAGS, LENGTH, DIM = 3, 5, 8
HIDDEN = torch.arange(LENGTH) >= torch.tensor([[5], [3], [4]])
MODES = {
    "train": torch.enable_grad, "eval": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode,
}  # fmt: skip


def encoder(**options: Any) -> nn.TransformerEncoder:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(DIM, 2, 16, batch_first=True, **options), 2)


def set_gamma(model: nn.Module, gamma: float) -> None:
    """gamma = 4 / (1 + 3 exp(-raw)), solved for raw, in every attention layer."""
    for module in model.modules():
        if isinstance(module, ExtrapolativeAttention):
            nn.init.constant_(module.extrapolation.gain.bias, -math.log((4.0 / gamma - 1.0) / 3.0))


def outputs(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Of a padded batch in every mode; the fused path and nested tensors are torch's choice in the last two."""
    found = {}
    for mode, context in MODES.items():
        model.train(mode == "train")
        torch.manual_seed(3)  # the same cells drop out
        with context():
            found[mode] = model(x, src_key_padding_mask=HIDDEN).clone()
    return found


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(
    "options", [{}, {"activation": "gelu"}, {"norm_first": True}, {"bias": False}, {"dropout": 0.0}], ids=str
)
@pytest.mark.parametrize("include", [None, "layers.1.*"])
def test_a_padded_encoder_gives_the_same_in_every_mode_and_every_row(options: Any, include: str | None) -> None:
    model, x = encoder(**options), torch.randn(BAGS, LENGTH, DIM)
    before = outputs(model, x)
    zero = not options.get("norm_first") and options.get("bias", True)  # torch's own nested path leaves zeros there
    assert bool((before["no_grad"][HIDDEN] == 0).all()) is zero
    conversion = extrapolate_(model, layers="all", include=include)
    torch.testing.assert_close(outputs(model, x), before, atol=1e-5, rtol=1e-5)
    set_gamma(model, 2.0)
    for mode, after in outputs(model, x).items():
        assert ((after - before[mode])[~HIDDEN].abs().amax(-1) > 1e-3).all(), mode
        assert bool((after[HIDDEN] == 0).all()) is (zero and mode in ("no_grad", "inference"))
    assert all(
        m._qkv_same_embed_dim is (m.in_proj_weight is not None)
        for m in model.modules() if isinstance(m, nn.MultiheadAttention)
    )  # fmt: skip
    conversion.undo()
    torch.testing.assert_close(outputs(model, x), before, atol=0, rtol=0)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_made_of_a_converted_layer_takes_padding() -> None:
    layer = nn.TransformerEncoderLayer(DIM, 2, 16, batch_first=True)
    extrapolate_(layer)
    set_gamma(layer, 2.0)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(BAGS, LENGTH, DIM)
    with torch.no_grad():
        fast = model(x, src_key_padding_mask=HIDDEN)
        model.use_nested_tensor = False
        slow = model(x, src_key_padding_mask=HIDDEN)
        torch.testing.assert_close(fast[~HIDDEN], slow[~HIDDEN], atol=1e-5, rtol=1e-5)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x, src_key_padding_mask=HIDDEN), slow, atol=1e-5, rtol=1e-5)
    assert (fast[HIDDEN] == 0).all()
