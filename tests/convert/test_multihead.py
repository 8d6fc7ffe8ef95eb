"""nn.MultiheadAttention in torch's own encoder and decoder."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from convert.samples import BAGS, DIM, LENGTH, encoder
from excora.attention import ExtrapolativeAttention
from excora.convert import extrapolate_

HIDDEN = torch.arange(LENGTH) >= torch.tensor([[5], [3], [4]])


def set_gamma(model: nn.Module, gamma: float) -> None:
    """gamma = 4 / (1 + 3 exp(-raw)), solved for raw, in every attention layer."""
    for module in model.modules():
        if isinstance(module, ExtrapolativeAttention):
            nn.init.constant_(module.extrapolation.gain.bias, -math.log((4.0 / gamma - 1.0) / 3.0))


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
