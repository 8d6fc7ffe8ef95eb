"""Parts of the retrieval network: how a row is encoded, how neighbours are scored, how the pooled bag is read."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DistanceScorer(nn.Module):
    """z_i = -||key difference||^2, which is the first ``keys`` channels of an element: (..., dim) to (...)."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self.keys = keys

    def forward(self, h: Tensor) -> Tensor:
        """Logits."""
        return -h[..., : self.keys].square().sum(-1)


class Residual(nn.Module):
    """x + W2 drop(gelu(W1 norm(x))): (n, width) to (n, width)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The sum."""
        return x + self.outer(self.dropout(F.gelu(self.inner(self.norm(x)))))


class Encoded(NamedTuple):
    """Rows as queries or neighbours, (n, ...)."""

    own: Tensor  #: (n, width) what the row is like
    key: Tensor  #: (n, keys) squared distances between keys are minus the logits
    difference: Tensor  #: (n, values) the first layer on a difference of rows is a difference of these


class RowEncoder(nn.Module):
    """own = norm(residual blocks(W x)), key = s (V m + U own), difference = D own.

    ``x`` (n, columns) and ``m`` (n, columns), the same rows in the space of the search. V starts as its principal
    directions and U small, so that a fresh key keeps the distances of the search.
    """

    def __init__(self, columns: int, width: int, blocks: int, keys: int, values: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(columns, width)
        self.blocks = nn.Sequential(*(Residual(width, dropout) for _ in range(blocks)), nn.LayerNorm(width))
        self.linear_key = nn.Parameter(torch.eye(columns, keys))
        self.deep_key = nn.Linear(width, keys, bias=False)
        nn.init.normal_(self.deep_key.weight, std=0.3 / math.sqrt(width))
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.difference = nn.Linear(width, values, bias=False)

    def forward(self, x: Tensor, m: Tensor) -> Encoded:
        """The rows, each on its own."""
        own = self.blocks(self.first(x))
        key = (m @ self.linear_key + self.deep_key(own)) * self.log_scale.exp()
        return Encoded(own, key, self.difference(own))


class Head(nn.Module):
    """MLP(norm(v)) + s * (label part of v): (n, dim) to (n, targets); nearly the label part at the start."""

    def __init__(self, dim: int, width: int, labels: slice, dropout: float) -> None:
        super().__init__()
        self.labels = labels
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, width)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(width, labels.stop - labels.start)
        self.label_weight = nn.Parameter(torch.ones(labels.stop - labels.start))
        with torch.no_grad():
            self.outer.weight.mul_(0.1)
            self.outer.bias.zero_()

    def forward(self, value: Tensor) -> Tensor:
        """Predictions."""
        hidden = self.outer(self.dropout(F.gelu(self.inner(self.norm(value)))))
        return hidden + self.label_weight * value[:, self.labels]
