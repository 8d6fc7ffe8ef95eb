"""Local-linear attention pooling: the value that a linear fit to the elements has at the query."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.functional import masked_softmax, shortened
from excora.pooling.base import register_pool
from excora.pooling.weighing import Keys, Weighed, WeighingPool

#: Added to the mean variance of the keys under the ridge: elements with one key for all have no slope.
LEAST = 1e-3


@register_pool("local-linear", label="local-linear attention", convex=False, usual=False)
class LocalLinearPool(WeighingPool):
    """v = m + shrunk slope: softmax attention over keys, corrected to first order, with weights that may be negative.

    Softmax attention by distance is the local-constant (Nadaraya-Watson) estimator: where the keys of a bag lie to one
    side of the query, its value is biased to that side. The local-linear one has no such bias. With u_i the first
    ``rank`` channels of key_i - query::

        alpha = softmax(-||key_i - query||^2),  u = sum_i alpha_i u_i,  d_i = u_i - u,  S = sum_i alpha_i d_i d_i^T
        x = -(S + lambda I)^-1 u,  lambda = softplus(rho) (tr S / rank + 1e-3),  g_i = d_i . x
        e_i = alpha_i (1 + g_i / sqrt(1 + sum_j alpha_j g_j^2 / kappa^2)),  v = sum_i e_i h_i,  kappa = softplus(k)

    The weights e sum to 1. A large rho is softmax; rho -> -inf with kappa -> inf recovers a target that is linear in
    the keys exactly. **The bound**: every channel keeps ``|v - m| <= kappa s``, where m = sum alpha h and s^2 is the
    variance of that channel under alpha; without one single bags blow up.

    ``keys``: how many channels of an element, its first, are its key's difference from the query; None for a plain bag,
    which then has keys and a query of its own to learn, see :class:`excora.pooling.weighing.Keys`. ``dropout`` takes
    elements out. An empty bag gives zeros, one of a single element that element. Nothing larger than rank x rank is
    formed beside the keys.

    Prior art: Local Linear Attention (arXiv 2510.01450), the same estimator in a transformer's attention, without a
    bound; its solver-free successor Parallax (arXiv 2605.29157).

    >>> h = torch.tensor([[[1.0, 5.0], [2.0, 7.0], [4.0, 11.0]]])  # a target 3 + 2 u, read at u = 0
    >>> pool = LocalLinearPool(2, keys=1, ridge=-20.0, bound=100.0)
    >>> round(pool(h).value[0, 1].item(), 2)
    3.0
    """

    def __init__(
        self,
        dim: int,
        *,
        keys: int | None = None,
        rank: int = 8,
        ridge: float = 0.5,
        bound: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dim, dropout=dropout)
        self.keys = Keys(dim, given=keys, width=rank)
        self.rank = min(rank, self.keys.width)
        self.ridge = nn.Parameter(torch.tensor([ridge]))  #: rho
        self.bound = nn.Parameter(torch.tensor([bound]))  #: k

    def read(self, h: Tensor) -> Tensor:
        """key_i - query."""
        return self.keys(h)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Alpha, and alpha with the slope."""
        ridge, kappa = (F.softplus(p.to(x.dtype)) for p in (self.ridge, self.bound))
        x = shortened(x, power=4)  # its own square, and that again in the gradient of S
        logits = -x.square().sum(-1)
        alpha = masked_softmax(logits, valid)
        near = x[..., : self.rank]
        u = torch.bmm(alpha.unsqueeze(1), near)  # (bags, 1, rank)
        d = near - u
        s = torch.bmm((alpha.unsqueeze(-1) * d).mT, d)
        lam = ridge * (s.diagonal(dim1=1, dim2=2).mean(1) + LEAST)
        factor = torch.linalg.cholesky_ex(s + torch.diag_embed(lam.unsqueeze(1).expand(-1, self.rank))).L
        g = torch.bmm(d, -torch.cholesky_solve(u.mT, factor)).squeeze(-1)
        # What has no weight may stand anywhere: a slope that is 0 there keeps infinity out of 0 times infinity.
        g = torch.where(alpha > torch.finfo(x.dtype).tiny ** 0.5, g, 0.0)
        # DIFF: tanh of each channel would need a weight for each channel; this one factor bounds all of them, since
        # |sum alpha g h| <= sqrt(sum alpha g^2) s, and leaves one weight an element.
        g = g / (size := 1.0 + g.detach().abs().sum(1, keepdim=True))  # a constant, which cancels
        shrink = (size.square().reciprocal() + (alpha * g.square()).sum(1, keepdim=True) / kappa.square()).rsqrt()
        return Weighed(alpha, alpha * (1.0 + g * shrink), {"logits": logits})

    def decay_free(self) -> Iterator[nn.Parameter]:
        """Ridge and bound, which weight decay should leave alone."""
        yield from (self.ridge, self.bound)
