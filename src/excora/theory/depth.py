"""The limits to depth efficiency: what depth buys self-attention at a given width.

    y_i = sum_h W_o^h sum_j <W_q^h x_i, W_k^h x_j> W_v^h x_j        (attention without softmax), L of them in a row

The output at a position is a polynomial of degree 3^L in the inputs. Its separation rank between two halves of the
inputs, the least number of products f(one half) g(other half) that sum to it, measures how much it mixes them. Below
L = log_3(width) it grows doubly exponentially with the depth, above it only exponentially. Levine, Wies, Sharir, Bata
and Shashua, "Limits to depth efficiencies of self-attention" (NeurIPS 2020); no code of theirs was seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError

#: A Mersenne prime: sums of products of two residues fit into Python's integers, and products into uint64.
PRIME = 2**31 - 1
Residues = NDArray[np.int64]


def _product(a: Residues, b: Residues) -> Residues:
    """a @ b modulo the prime, batched: each product is reduced before it is added, so nothing overflows."""
    terms = (a[..., :, :, None] * b[..., None, :, :]) % PRIME
    return terms.sum(-2) % PRIME


class LinearAttentionNet:
    """A random network of ``depth`` attention layers without softmax, over the integers modulo a prime.

    >>> net = LinearAttentionNet(width=2, heads=1, depth=1, seed=0)
    >>> x = np.array([[[1, 2], [3, 4]]])
    >>> bool((net(2 * x) == 2**3 * net(x) % PRIME).all())
    True
    """

    def __init__(self, *, width: int, heads: int, depth: int, seed: int) -> None:
        if min(width, heads, depth) < 1 or width % heads:
            raise InputError(
                f"width, heads and depth must be at least 1, and heads divide width: {width}, {heads}, {depth}"
            )
        self.width, self.heads, self.depth = width, heads, depth
        rng, inner = np.random.default_rng(seed), width // heads
        self.layers = [rng.integers(PRIME, size=(4, heads, inner, width)) for _ in range(depth)]

    def __call__(self, x: Residues) -> Residues:
        """(batch, positions, width) to the same shape."""
        x = np.asarray(x, np.int64) % PRIME
        for layer in self.layers:
            q, k, v = (_product(x[:, None], np.swapaxes(w, -1, -2)[None]) for w in layer[:3])
            mixed = _product(_product(q, np.swapaxes(k, -1, -2)), v)  # (batch, heads, positions, inner)
            x = _product(mixed, layer[3][None]).sum(1) % PRIME
        return x


def separation_rank(
    *, width: int, heads: int, depth: int, positions: int = 4, points: int | None = None, seed: int = 0
) -> int:
    """The exact separation rank of a generic network's first output between the first and second half of its inputs.

    The rank, modulo a large prime, of the outputs on a grid of random halves; it is that of the polynomial if the grid
    has more points than the rank, else an error says so. For tiny networks: the grid has points^2 inputs.

    >>> separation_rank(width=4, heads=2, depth=1)
    5
    """
    if positions < 2 or positions % 2:
        raise InputError(f"positions must be even and at least 2, got {positions}")
    net = LinearAttentionNet(width=width, heads=heads, depth=depth, seed=seed)
    points = points or 2 * (width + 2) ** min(depth, 2) + 8
    rng = np.random.default_rng(seed + 1)
    halves = rng.integers(PRIME, size=(2, points, positions // 2, width))
    grid = np.empty((points, points), np.int64)
    for i in range(points):
        x = np.concatenate([np.broadcast_to(halves[0, i], halves[1].shape), halves[1]], 1)
        grid[i] = net(x)[:, 0, 0]
    rank = rank_modulo(grid)
    if rank == points:
        raise InputError(f"the rank is at least {points}, all that {points} points can show: pass more points")
    return rank


def rank_modulo(matrix: Residues, prime: int = PRIME) -> int:
    """The rank of a matrix of integers modulo a prime, by elimination.

    >>> rank_modulo(np.array([[1, 2], [2, 4]]))
    1
    """
    rows = np.asarray(matrix, np.int64) % prime
    rank = 0
    for column in range(rows.shape[1]):
        found = np.flatnonzero(rows[rank:, column])
        if not len(found):
            continue
        pivot = rank + int(found[0])
        rows[[rank, pivot]] = rows[[pivot, rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, prime) % prime
        below = rows[rank + 1 :]
        below[:] = (below - below[:, column : column + 1] * rows[rank] % prime) % prime
        rank += 1
        if rank == len(rows):
            break
    return rank


def depth_threshold(width: int) -> float:
    """log_3(width): the depth up to which a layer more mixes doubly exponentially more.

    >>> depth_threshold(81)
    4.0
    """
    if width < 1:
        raise InputError(f"width must be at least 1, got {width}")
    return math.log(width) / math.log(3.0)


def log_rank_bound(*, width: int, heads: int, depth: int) -> float:
    """An upper bound of log_3 of the separation rank: (3^L - 1)/2 log_3(d + H) below the threshold, 2 d L above.

    The leading terms, as the authors' theorems are remembered; the first is checked against exact ranks of tiny nets.

    >>> round(3 ** log_rank_bound(width=4, heads=2, depth=1), 6)
    6.0
    """
    if depth <= depth_threshold(width):
        return (3.0**depth - 1.0) / 2.0 * math.log(width + heads, 3.0)
    return 2.0 * width * depth


class Sizing(NamedTuple):
    """On which side of the threshold an architecture is, and what would put it there."""

    depth: int
    width: int
    threshold: float  #: log_3(width)
    fitted_width: float  #: exp(0.05039 L + 5.55): the width at which this depth pays, fitted on language models

    @property
    def too_shallow(self) -> bool:
        """Whether a layer more would still mix doubly exponentially more."""
        return self.depth < self.threshold

    def __str__(self) -> str:
        side = "below" if self.too_shallow else "above"
        return (
            f"{self.depth} layers of width {self.width} are {side} the threshold, log_3(width) = {self.threshold:.1f}; "
            f"a width of {3**self.depth:,} would put it at {self.depth}. On language models this depth paid from a "
            f"width of {self.fitted_width:,.0f} on: a fit to those, and no statement about tables or slides."
        )


def sizing(*, depth: int, width: int) -> Sizing:
    """The threshold of an architecture.

    >>> sizing(depth=3, width=192).too_shallow
    True
    """
    if depth < 1:
        raise InputError(f"depth must be at least 1, got {depth}")
    return Sizing(depth, width, depth_threshold(width), math.exp(0.05039 * depth + 5.55))
