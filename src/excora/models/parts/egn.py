"""The parts of EGN (Yang et al. 2023), as its code has them: exemplars beside patches, and the read-out of the patches.

    patches ─► x ─┐                              ┌─► read-out ─┐
    feature ─► q ─┼─► layers, some with a bridge ┤             ├─► head
    exemplars ─► k, v ─┘                         └─► q ────────┘

Shapes: n windows, P patches, K exemplars, d the width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.extrapolation import Extrapolation, extrapolate, sharpness
from excora.functional import at_least_float32, dispersion
from excora.models.parts.transformer import attend
from excora.pooling import Pooled, make_pool
from excora.reduce import Penalty

#: What the logits of the read-out are multiplied by, and the attended value beside the mean.
SHARPNESS, SHARE = 0.1, 0.5


class Carried(NamedTuple):
    """What a window and its exemplars carry through the layers."""

    query: Tensor  #: (n, d), of the window
    key: Tensor  #: (n, K, d)
    value: Tensor  #: (n, K, d), the same in every layer
    real: Tensor | None = None  #: (n, K) boolean; None: all are


class Hidden(nn.Module):
    """W_2 GELU(W_1 LayerNorm(t)): (..., dim) to (..., dim)."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, t: Tensor) -> Tensor:
        """What is to be added to ``t``."""
        return self.second(F.gelu(self.first(self.norm(t))))


class Projector(nn.Module):
    """q = W_q p, k_j = W_k [p_j, y_j], v_j = W_v y_j; then ``depth`` times u + hidden(u), the same for q and k."""

    def __init__(self, width: int, targets: int, dim: int, depth: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, dim), nn.Linear(width + targets, dim)
        self.value = nn.Linear(targets, dim)
        self.layers = nn.ModuleList(Hidden(dim, dim) for _ in range(depth))

    def forward(self, feature: Tensor, exemplar: Tensor, counts: Tensor, real: Tensor | None) -> Carried:
        """Of features p (n, width), exemplars' features p_j (n, K, width) and expression y_j (n, K, targets)."""
        q, k = self.query(feature), self.key(torch.cat([exemplar, counts], -1))
        for layer in self.layers:
            q, k = q + layer(q), k + layer(k)
        return Carried(q, k, self.value(counts), real)


class Bridge(nn.Module):
    """The exemplar block: exemplars gate the patches, and the patches answer.

    ::

        m_j = sigmoid(g_j) * W v_j,  q^ = q + pool_j(m_j),  k_j <- LayerNorm(k_j + sigmoid(g'_j) * W v_j)
        O_ph = sigmoid(W_s LayerNorm(q^))_hp (W_x LayerNorm(x))_ph,  x <- x + W_o O,  q <- q + W_n mean_p O_p

    with [g_j, g'_j] = W_2 SiLU(W_1 [q - k_j, k_j]). ``pool`` "mean" is EGN's; another one attends to the exemplars.
    """

    def __init__(self, dim: int, patches: int, heads: int, width: int, *, pool: str, last: bool) -> None:
        super().__init__()
        inner, self.last = heads * width, last
        self.shape = (heads, patches)
        self.gate = nn.Sequential(nn.Linear(2 * dim, 4 * width), nn.SiLU(), nn.Linear(4 * width, 2 * dim))
        self.message = nn.Linear(dim, dim)
        # DIFF: any pool over the exemplars; EGN has their plain mean.
        self.pool = make_pool(pool, dim)
        self.key_norm, self.query_norm, self.patch_norm = (nn.LayerNorm(dim) for _ in range(3))
        self.opening, self.patches = nn.Linear(dim, heads * patches), nn.Linear(dim, inner)
        self.to_patches, self.to_query = nn.Linear(inner, dim, bias=False), nn.Linear(inner, dim, bias=False)
        #: Read by nobody, in the reference as here: kept so that its weights and their number are the same.
        self.unused = nn.Linear(inner, dim).requires_grad_(False)
        if last:
            self.key_norm.requires_grad_(False)

    def forward(self, x: Tensor, e: Carried) -> tuple[Tensor, Carried, Pooled]:
        """Patches (n, P, d) and exemplars after the block, and how the exemplars were weighed."""
        q = e.query.unsqueeze(1)
        told = self.message(e.value)
        of_query, of_key = torch.sigmoid(self.gate(torch.cat([q - e.key, e.key], -1))).chunk(2, -1)
        pooled = self.pool(of_query * told, e.real)
        k = e.key if self.last else self.key_norm(e.key + of_key * told)
        opened = torch.sigmoid(self.opening(self.query_norm(e.query + pooled.value))).view(-1, *self.shape)
        seen = self.patches(self.patch_norm(x)).unflatten(-1, (self.shape[0], -1))  # (n, P, heads, width)
        out = (seen * opened.transpose(1, 2).unsqueeze(-1)).flatten(2)
        # EGN's paper adds to q^; its code, which this follows, to the q before.
        query = e.query + self.to_query(out.mean(1))
        return x + self.to_patches(out), e._replace(query=query, key=k), pooled


class Layer(nn.Module):
    """x + W attention(LayerNorm(x + positions)), the bridge if there is one, then x + hidden(x)."""

    def __init__(self, dim: int, heads: int, width: int, hidden: int, bridge: Bridge | None) -> None:
        super().__init__()
        self.heads, self.bridge = heads, bridge
        self.norm, self.inner = nn.LayerNorm(dim), nn.Linear(dim, 3 * heads * width, bias=False)
        self.outer, self.feedforward = nn.Linear(heads * width, dim), Hidden(dim, hidden)

    def forward(self, x: Tensor, positions: Tensor, e: Carried) -> tuple[Tensor, Carried, Pooled | None]:
        """Patches (n, P, d) and exemplars after the layer, and how the exemplars were weighed, if they were."""
        # Positions are added again before each attention, not to what is carried on.
        q, k, v = self.inner(self.norm(x + positions)).chunk(3, -1)
        x = x + self.outer(attend(q, k, v, self.heads, 0.0))
        pooled = None
        if self.bridge is not None:
            x, e, pooled = self.bridge(x, e)
        return x + self.feedforward(x), e, pooled


class PatchReadOut(nn.Module):
    """The window from its patches: value = mu + a / 2, a_c = sum_p alpha_pc S_pc, alpha_c = softmax_p(S_pc / 10).

    S = W x, mu its mean, and each channel c has weights of its own. With an ``extrapolation`` a becomes
    mu + gamma (a - mu) and the logits are divided by tau, one of each a window; at gamma = tau = 1 this is EGN.
    ``alone``: value = a, without the mean beside it.

    The dispersion that sets tau is that of the patches *before* positions, which would drown it: with learned positions
    that of S is 21.0 for a constant image and 24.2 for random pixels.

    :class:`Pooled`: weights (n, P), logits and effective weights are means over the channels.
    """

    def __init__(self, dim: int, extrapolation: Extrapolation | None, *, alone: bool) -> None:
        super().__init__()
        self.head, self.extrapolation, self.alone = nn.Linear(dim, dim), extrapolation, alone

    def forward(self, x: Tensor, before: Tensor) -> Pooled:
        """Read patches x (n, P, d); ``before``: the same before positions and layers."""
        s = at_least_float32(self.head(x))
        logits, mean, ours = SHARPNESS * s, s.mean(1), self.extrapolation
        details = {"logits": logits.mean(-1)}
        penalty = Penalty(mean.new_zeros(()), mean.new_zeros(()))
        gamma = tau = mean.new_ones(len(mean))
        if ours is not None:
            sigma = dispersion(before)
            gamma, tau = ours.gamma(mean), ours.tau(sigma)
            details |= {"gamma": gamma, "temperature": tau, "dispersion": sigma}
            penalty = ours.penalty(gamma)
        alpha = torch.softmax(logits * sharpness(tau).view(-1, 1, 1), 1)
        attended = (alpha * s).sum(1)
        value = attended if ours is None else extrapolate(mean, attended, gamma.unsqueeze(1))
        weights, even = alpha.mean(-1), 1.0 / x.shape[1]
        details["effective"] = even + gamma.unsqueeze(1) * (weights - even)
        if not self.alone:
            value = mean + SHARE * value
            details["effective"] = even + SHARE * details["effective"]
        return Pooled(value.to(x.dtype), weights, penalty, details)


def cut(image: Tensor, size: int) -> Tensor:
    """Windows (n, channels, height, width) in patches, row by row: (n, P, size * size * channels).

    A patch is read in the order (row, column, channel).

    >>> cut(torch.arange(8.0).view(1, 1, 2, 4), 2).tolist()
    [[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]]
    """
    n, channels, height, width = image.shape
    tiles = image.view(n, channels, height // size, size, width // size, size)
    patches = (height // size) * (width // size)
    return tiles.permute(0, 2, 4, 3, 5, 1).reshape(n, patches, size * size * channels)
