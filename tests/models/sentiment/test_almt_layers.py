"""The layers of ALMT: few queries over many frames."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from excora.extrapolation import Extrapolation
from excora.models.sentiment.almt import ALMTOptions
from excora.models.sentiment.almt_layers import CrossLayer, Reader
from excora.models.sentiment.parts import Sequence
from models.sentiment.cases import away


def full(layer: CrossLayer, target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The same with keys and values of every source vector, by torch's own attention."""

    def heads(x):
        return x.unflatten(2, (layer.heads, -1)).transpose(1, 2)

    q, k, v = layer.to_q(layer.norm_q(target)), layer.to_k(layer.norm_k(source)), layer.to_v(layer.norm_v(source))
    attended = F.scaled_dot_product_attention(heads(q), heads(k), heads(v)).transpose(1, 2).flatten(2)
    target = target + layer.to_out(attended)
    return target + layer.second(F.gelu(layer.first(layer.norm(target))))


def test_few_queries_give_the_rows_of_a_full_layer_and_their_gradients():
    layer = away(CrossLayer(6, 2, 5, 7))
    x = torch.randn(3, 9, 6, dtype=torch.float64, requires_grad=True)
    rows, looked = layer(x[:, :2], x)
    expected = full(layer, x, x)[:, :2]
    torch.testing.assert_close(rows, expected, rtol=1e-12, atol=1e-12)
    assert looked.weights.shape == (3, 4, 9)
    learns = [p for p in layer.parameters() if p.requires_grad]
    for ours, plain in zip(
        torch.autograd.grad(rows.sin().sum(), [x, *learns]), torch.autograd.grad(expected.sin().sum(), [x, *learns]),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)


def test_gradients_with_eca_and_a_mask():
    layer = away(CrossLayer(4, 2, 3, 4, Extrapolation(6)))
    mask = torch.tensor([[True, True, False], [True, True, True]])
    few, many = (torch.randn(2, n, 4, dtype=torch.float64, requires_grad=True) for n in (2, 3))
    spread = torch.tensor([0.5, 2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t, s: layer(t, s, mask)[0], (few, many))
    assert torch.autograd.gradcheck(lambda t, s: layer(t, s, mask, spread)[0], (few, many))


def test_the_bias_of_the_keys_changes_nothing():
    layer = away(CrossLayer(4, 2, 3, 4))
    few, many = (torch.randn(2, n, 4, dtype=torch.float64) for n in (2, 3))
    before = full(layer, few, many)
    layer.norm_k.bias.data.add_(1.0)
    torch.testing.assert_close(full(layer, few, many), before)


@pytest.mark.parametrize("pool", ["softmax", "eca", "eca-paper"])
def test_a_reader_makes_tokens_of_frames(pool):
    options = ALMTOptions(dim=6, tokens=2, heads=2, head_width=4, hidden=5)
    reader = away(Reader((3, 7), options, pool))
    frames = Sequence(torch.randn(2, 5, 3, dtype=torch.float64), torch.tensor([5, 3])).clean()
    value, pooled = reader(frames)
    assert value.shape == (2, 2, 6)
    assert pooled.real.tolist() == [[True] * 7, [True] * 5 + [False] * 2]
    assert ("gamma" in pooled.details) == (pool != "softmax")
    assert float(pooled.penalty.count) == (0 if pool == "softmax" else 2)
