"""Re-ranking: candidates described by how alike they are to a few anchors, encoded together, compared with the query.

    a_i = affinity of candidate i to the anchors (the query and the first candidates),   z = Encoder(W a),
    score_i = cos(z_0, z_i)

After Ouyang, Wu et al., "Contextual similarity aggregation with self-attention for visual re-ranking" (NeurIPS 2021),
written from its formulas. An affinity says where a candidate stands among the others, which its own distance from the
query does not: two points far apart on one arc share their neighbours.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError

#: t of the contrastive loss: exp(cos / t).
TEMPERATURE = 2.0
#: What the reconstruction of affinities weighs.
RECONSTRUCTION = 0.2


class Reranker(nn.Module):
    """Affinities (n, 1 + candidates, anchors), the query first, to scores (n, candidates) in [-1, 1].

    Pre-norm transformer layers without positions: candidates may come in any order. ``mask`` (n, candidates): the real
    ones.

    >>> model = Reranker(anchors=5, dim=8, heads=2)
    >>> model(torch.rand(3, 7, 5)).shape
    torch.Size([3, 6])
    """

    def __init__(self, *, anchors: int, dim: int = 64, depth: int = 2, heads: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        if min(anchors, dim, depth, heads) < 1 or dim % heads:
            raise InputError(
                "anchors, dim, depth and heads must be at least 1, and heads divide dim, got "
                f"{anchors}, {dim}, {depth} and {heads}"
            )
        self.anchors = anchors
        self.inner, self.outer = nn.Linear(anchors, dim), nn.Linear(dim, anchors)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout, "gelu", batch_first=True, norm_first=True)
            for _ in range(depth)
        )

    def encode(self, affinity: Tensor, mask: Tensor | None = None) -> Tensor:
        """z, (n, 1 + candidates, dim)."""
        if affinity.dim() != 3 or affinity.shape[2] != self.anchors:
            raise InputError(
                f"affinities must be of shape (n, 1 + candidates, {self.anchors}), got {tuple(affinity.shape)}"
            )
        hidden = None if mask is None else F.pad(~mask, (1, 0))  # the query is always there
        z: Tensor = self.inner(affinity)
        for layer in self.layers:
            z = layer(z, src_key_padding_mask=hidden)
        return z

    def forward(self, affinity: Tensor, mask: Tensor | None = None) -> Tensor:
        """The scores; those of masked candidates are -inf."""
        z = F.normalize(self.encode(affinity, mask), dim=-1)
        score = (z[:, 1:] @ z[:, :1].mT).squeeze(-1)
        return score if mask is None else score.masked_fill(~mask, -torch.inf)

    def loss(self, affinity: Tensor, relevant: Tensor, mask: Tensor | None = None) -> Tensor:
        """Contrastive loss plus reconstruction of the affinities; ``relevant`` (n, candidates): who should come first.

        ::

            mean -log(sum_(i relevant) exp(cos(z_0, z_i)/t) / sum_i exp(cos(z_0, z_i)/t))       both sums with i = 0
              + 0.2 mean sqrt(clamp(|norm(a) - norm(W z)|^2, 1e-4, 1e4))
        """
        z = self.encode(affinity, mask)
        unit = F.normalize(z, dim=-1)
        score = (unit @ unit[:, :1].mT).squeeze(-1) / TEMPERATURE
        real = torch.ones_like(score, dtype=torch.bool) if mask is None else F.pad(mask, (1, 0), value=True)
        wanted = real & F.pad(relevant, (1, 0), value=True)
        low = torch.finfo(score.dtype).min
        contrast = score.masked_fill(~real, low).logsumexp(1) - score.masked_fill(~wanted, low).logsumexp(1)
        apart = (F.normalize(affinity, dim=-1) - F.normalize(self.outer(z), dim=-1)).square().sum(-1)
        return contrast.mean() + RECONSTRUCTION * apart.clamp(1e-4, 1e4).sqrt()[real].mean()


def cosine_affinity(features: Tensor, anchors: int) -> Tensor:
    """Of unit features (n, 1 + candidates, dim), the query first, nearest next: products with the first ``anchors``.

    >>> cosine_affinity(torch.eye(3).unsqueeze(0), 2)
    tensor([[[1., 0.],
             [0., 1.],
             [0., 0.]]])
    """
    return features @ features[:, :anchors].mT


def kernel_affinity(features: Tensor, anchors: int) -> Tensor:
    """Of features in a metric space, laid out as those of :func:`cosine_affinity`: exp(-|f_i - f_anchor|^2).

    >>> kernel_affinity(torch.tensor([[[0.0], [1.0]]]), 1).round(decimals=2).flatten().tolist()
    [1.0, 0.3700000047683716]
    """
    return (-torch.cdist(features, features[:, :anchors]).square()).exp()


def average_precision(score: Tensor, relevant: Tensor) -> Tensor:
    """(n,): the mean over relevant candidates of the precision down to each, by falling score; (n, candidates) both.

    NaN where nothing is relevant.

    >>> average_precision(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[True, False, True]])).round(decimals=4)
    tensor([0.8333])
    """
    order = score.argsort(dim=1, descending=True, stable=True)
    hit = relevant.gather(1, order).double()
    precision = hit.cumsum(1) / torch.arange(1, hit.shape[1] + 1, device=hit.device)
    return ((precision * hit).sum(1) / hit.sum(1)).float()
