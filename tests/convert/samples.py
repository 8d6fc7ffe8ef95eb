"""What the tests of this folder share."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torchmil.nn.attention import AttentionPool

BAGS, LENGTH, DIM = 3, 5, 8


def encoder(**options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(DIM, 2, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2)


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


def size(_: nn.Module) -> tuple[int, int]:
    return 4, 2
