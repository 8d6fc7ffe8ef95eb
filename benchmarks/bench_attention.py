"""ExtrapolativeAttention against nn.MultiheadAttention(need_weights=False): self-attention, forward + backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import Row, row
from excora.attention import ExtrapolativeAttention

BAGS, TOKENS, DIM, HEADS = 128, 82, 256, 8


def _step(layer: nn.Module, x: Tensor, grad: Tensor, masks: dict[str, Any]) -> Callable[[], None]:
    def step() -> None:
        x.grad = None
        layer.zero_grad(set_to_none=True)
        output, _ = layer(x, x, x, need_weights=False, **masks)
        output.backward(grad)

    return step


def run() -> list[Row]:
    """The target of the issue without a mask, and what the statistics per query cost with one."""
    torch.manual_seed(0)
    x, grad = torch.randn(BAGS, TOKENS, DIM, requires_grad=True), torch.randn(BAGS, TOKENS, DIM)
    other = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    ours = ExtrapolativeAttention.from_multihead(other)
    for parameter in ours.extrapolation_parameters():  # away from the start, where nothing could be skipped
        nn.init.normal_(parameter, std=0.1)
    future = nn.Transformer.generate_square_subsequent_mask(TOKENS)
    padding = torch.arange(TOKENS) >= torch.randint(TOKENS // 2, TOKENS + 1, (BAGS, 1))
    cases: list[tuple[str, float, dict[str, Any]]] = [
        ("no mask", 1.05, {}),
        ("key_padding_mask", 1.25, {"key_padding_mask": padding}),
        ("is_causal", 1.25, {"attn_mask": future, "is_causal": True}),
        ("attn_mask", 1.25, {"attn_mask": future}),
    ]
    return [
        row(
            f"ExtrapolativeAttention / MultiheadAttention, {name}",
            target,
            _step(ours, x, grad, masks),
            _step(other, x, grad, masks),
            rounds=7,
        )
        for name, target, masks in cases
    ]
