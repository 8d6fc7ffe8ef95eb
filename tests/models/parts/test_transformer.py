"""Attention and feed-forward under dropout: the same formulas with the dropped cells at zero."""

from __future__ import annotations

import math

import pytest
import torch
from oracles.rows import randomised
from torch import Tensor

from excora.models.parts import transformer
from excora.models.parts.transformer import FeedForward, attend, kept


def test_attention_under_dropout_is_attention_with_those_weights_dropped(monkeypatch):
    monkeypatch.setattr(transformer, "_TILE", 2 * 2 * 5 * 5)  # two samples a tile, and one left over
    q, k, v = torch.randn(3, 7, 5, 6, dtype=torch.float64).requires_grad_().unbind(0)
    pull = torch.randn(7, 5, 6).double()

    def run(*inputs: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend(*inputs, 2, 0.25)

    torch.manual_seed(1)
    keep, factor = kept((7, 2, 5, 5), 0.25, torch.device("cpu"))
    a, b, c = (x.unflatten(-1, (2, 3)).transpose(1, 2) for x in (q, k, v))
    weights = torch.softmax(a @ b.mT / math.sqrt(3), -1) * keep * factor
    wanted = (weights @ c).transpose(1, 2).flatten(2)
    torch.testing.assert_close(run(q, k, v), wanted, rtol=0, atol=1e-12)
    found = torch.autograd.grad((run(q, k, v) * pull).sum(), (q, k, v))
    expected = torch.autograd.grad((wanted * pull).sum(), (q, k, v))
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


def test_feed_forward_under_dropout_is_reglu_with_those_cells_dropped():
    layer = randomised(FeedForward(6, 0.3).double())
    t = torch.randn(4, 5, 6).double().requires_grad_()
    torch.manual_seed(1)
    found = layer(t)
    torch.manual_seed(1)
    keep, factor = kept((4, 5, 16), 0.3, torch.device("cpu"))
    a, b = layer.first(layer.norm(t)).chunk(2, -1)
    wanted = layer.second(a * torch.relu(b) * keep[..., :8] * factor)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    inputs = (t, *layer.parameters())
    pull = torch.randn_like(found)
    for x, y in zip(*(torch.autograd.grad((out * pull).sum(), inputs) for out in (found, wanted)), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.99])
def test_dropout_keeps_the_share_it_says(p):
    keep, factor = kept((1000, 1001), p, torch.device("cpu"))
    share = keep.double().mean().item()
    assert abs(share - (1 - p)) < 5 * math.sqrt(p * (1 - p) / keep.numel())
    assert factor == pytest.approx(1 / (1 - p), rel=1e-3)
    pairs = (keep[:, 1:] * keep[:, :-1]).double().mean().item()  # neighbours share a random number, and nothing else
    assert abs(pairs - share**2) < 5e-3
