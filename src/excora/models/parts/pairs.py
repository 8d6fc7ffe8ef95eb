"""Parts of the retrieval network: how a row is encoded, how neighbours are scored, how the pooled bag is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models.parts.neighbours import Kind, Metric
from excora.pooling import Pool, Pooled

#: A bin between quantiles that is narrower has a slope that turns a rounding error into a signal.
NARROWEST = 1e-6


class DistanceScorer(nn.Module):
    """z_i = -||key difference||^2, which is the first ``keys`` channels of an element: (..., dim) to (...)."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self.keys = keys

    def forward(self, h: Tensor) -> Tensor:
        """Logits."""
        return -h[..., : self.keys].square().sum(-1)


class Bag(NamedTuple):
    """Rows with their neighbours: what differs between the elements of a row, and what they share."""

    varying: Tensor  #: (n, k, dim)
    shared: Tensor  #: (n, width)


class BesideShared(nn.Module):
    """``pool`` on elements [varying, shared], without computing what is known: a shared part passes any pool as it is.

    Weights, penalty and details are those of ``pool`` on the varying part, ``value`` is (n, dim + width). An empty bag
    still has its shared part.
    """

    def __init__(self, pool: Pool, width: int) -> None:
        super().__init__()
        self.dim = pool.dim + width
        self.varying = pool

    def forward(self, bag: Bag, mask: Tensor | None = None) -> Pooled:
        """Pool each bag."""
        pooled = self.varying(bag.varying, mask)
        return pooled._replace(value=torch.cat([pooled.value, bag.shared], 1))

    def elements(self, bag: Bag) -> Tensor:
        """The elements in full, (n, k, dim + width): what a monitor measures."""
        return torch.cat([bag.varying, bag.shared.unsqueeze(1).expand(-1, bag.varying.shape[1], -1)], -1)


class Dropout(nn.Module):
    """Zero with probability ``p``, rounded to 1/65536, else times 1 / (1 - p): four decisions from a random number.

    On a processor torch's own draws a number for each, which takes longer than the linear layer behind it.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """``x`` itself in eval mode."""
        dropped = round(self.p * 65536)
        if not self.training or not dropped:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        drawn = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 32768
        return x * keep.to(x.dtype).mul_(65536 / (65536 - dropped))


class Residual(nn.Module):
    """x + W2 drop(gelu(W1 norm(x))): (n, width) to (n, width)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The sum."""
        return x + self.outer(self.dropout(F.gelu(self.inner(self.norm(x)))))


class Pieces(nn.Module):
    """P e, where e_jb = clip((x_j - q_jb) / (q_j,b+1 - q_jb), 0, 1) - 1/2 for the quantiles q_j0 ... q_jB of column j.

    (n, columns) to (n, width): a function of each column that is linear between its quantiles, else free. A bin
    without width is 0: as a constant it would be one more bias. The quantiles are those of :meth:`fit`.
    """

    starts: Tensor
    slopes: Tensor

    def __init__(self, columns: int, bins: int, width: int) -> None:
        super().__init__()
        self.register_buffer("starts", torch.zeros(bins, columns))
        self.register_buffer("slopes", torch.zeros(bins, columns))
        self.out = nn.Linear(bins * columns, width, bias=False)

    def fit(self, x: Tensor) -> None:
        """Take the quantiles of these rows, (n, columns)."""
        bins = len(self.starts)
        edges = x.sort(0).values[torch.linspace(0, len(x) - 1, bins + 1, dtype=torch.float64).round().long()]
        gap = edges.diff(dim=0)
        self.starts.copy_(edges[:-1])
        self.slopes.copy_(torch.where(gap > NARROWEST, 1 / gap.clamp_min(NARROWEST), 0.0))

    def forward(self, x: Tensor) -> Tensor:
        """(n, width)."""
        place = ((x.unsqueeze(1) - self.starts) * self.slopes).clamp(0.0, 1.0)
        return self.out((place - 0.5 * (self.slopes > 0)).flatten(1))


class Pair(NamedTuple):
    """Rows as one side of a pair, (n, ...): what is subtracted to make elements."""

    key: Tensor  #: (n, keys) squared distances between keys are minus the logits
    difference: Tensor  #: (n, values) the first layer on a difference of rows is a difference of these


class RowEncoder(nn.Module):
    """f = shared(W x);  near = relu(norm(f)), key = s (V m + U near), difference = D near;  own = norm(blocks(f + e)).

    ``x`` (n, columns), and m, the same rows in the space of the search. V starts as its principal directions and U
    small, so that a fresh key keeps the distances of the search. ``shared`` and ``blocks`` are numbers of residual
    blocks. A batch has some twenty neighbours a row, so the latter, for rows that are asked about alone, cost little;
    likewise e, :class:`Pieces` of ``bins`` quantiles for the first ``numeric`` columns.
    """

    def __init__(
        self,
        columns: int,
        width: int,
        blocks: int,
        keys: int,
        values: int,
        dropout: float,
        *,
        shared: int,
        numeric: int,
        bins: int,
    ) -> None:
        super().__init__()
        self.numeric = numeric
        self.pieces = Pieces(numeric, bins, width) if numeric and bins else None
        self.first = nn.Sequential(nn.Linear(columns, width), *(Residual(width, dropout) for _ in range(shared)))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Residual(width, dropout) for _ in range(blocks)), nn.LayerNorm(width))
        self.linear_key = nn.Parameter(torch.eye(columns, keys))
        self.deep_key = nn.Linear(width, keys, bias=False)
        nn.init.normal_(self.deep_key.weight, std=0.3 / math.sqrt(width))
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.difference = nn.Linear(width, values, bias=False)

    def fit(self, x: Tensor) -> None:
        """Take the quantiles of these rows, if there is use for them."""
        if self.pieces is not None:
            self.pieces.fit(x[:, : self.numeric])

    def pair(self, x: Tensor, f: Tensor, metric: Metric) -> Pair:
        """The side of a pair of rows ``x``, of which ``f`` is the shared part, (n, width)."""
        near = torch.relu(self.norm(f))
        # Scale and metric go into the weights, which are few, and one product gives both readings of the many rows.
        scale, keys = self.log_scale.exp(), self.linear_key.shape[1]
        both = near @ torch.cat([self.deep_key.weight * scale, self.difference.weight]).T
        return Pair(both[:, :keys] + x @ (metric.before(self.linear_key) * scale), both[:, keys:])

    def forward(self, x: Tensor, metric: Metric) -> tuple[Pair, Tensor]:
        """Rows that are asked about: their side of a pair, and what they are like themselves, (n, width)."""
        f = self.first(x)
        pieces = 0.0 if self.pieces is None else self.pieces(x[:, : self.numeric])
        return self.pair(x, f, metric), self.blocks(f + pieces)


class Head(nn.Module):
    """MLP(norm(v)) + s * (label part of v): (n, dim) to (n, targets); nearly the label part at the start."""

    def __init__(self, dim: int, width: int, labels: slice, dropout: float) -> None:
        super().__init__()
        self.labels = labels
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, width)
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(width, labels.stop - labels.start)
        self.label_weight = nn.Parameter(torch.ones(labels.stop - labels.start))
        with torch.no_grad():
            self.outer.weight.mul_(0.1)
            self.outer.bias.zero_()

    def forward(self, value: Tensor) -> Tensor:
        """Predictions."""
        hidden = self.outer(self.dropout(F.gelu(self.inner(self.norm(value)))))
        return hidden + self.label_weight * value[:, self.labels]


def check_arguments(
    spec: TableSpec,
    sizes: dict[str, int],
    rates: dict[str, float],
    gaps: Sequence[int],
    metric: str,
    residual: str,
    memory: float,
) -> None:
    """Raise unless a retrieval network can be built of these."""
    if spec.kind != "table" or not spec.numeric + len(spec.categories):
        raise InputError(f"retrieval is for rows of a table with at least one column, got {spec}")
    for name, value in sizes.items():
        if value < (least := 0 if name in ("shared", "blocks", "bins") else 1):
            raise InputError(f"{name} must be at least {least}, got {value}")
    if not 0.0 <= memory < math.inf:
        raise InputError(f"memory must be a time of at least 0, got {memory}")
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise InputError(f"{name} must be in [0, 1), got {rate}")
    if sorted({*gaps}) != list(gaps) or not all(0 <= gap < spec.numeric for gap in gaps):
        raise InputError(f"gaps must be rising numbers of the {spec.numeric} numeric columns, got {list(gaps)}")
    if metric not in get_args(Kind):
        raise InputError(f"metric must be one of {', '.join(get_args(Kind))}, got {metric!r}")
    if residual not in ("none", "ridge"):
        raise InputError(f"residual must be none or ridge, got {residual!r}")
