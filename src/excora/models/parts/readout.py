"""The last attention of a transformer whose CLS token alone is read: what it costs less, and what a monitor sees."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError
from excora.extrapolation import Extrapolation, extrapolate, sharpness
from excora.functional import at_least_float32
from excora.models.parts.transformer import Attention, statistics
from excora.pooling import Pooled
from excora.reduce import Penalty

#: The options of :class:`Extrapolation` that each kind of attention starts from; None: it has none.
FORMS: dict[str, dict[str, Any] | None] = {
    "softmax": None,
    "eca": {},
    "eca-paper": {"residual": "paper", "temperature": (0.5, 1.0), "cap": 2.0},
}


class ReadOut(nn.Module):
    """The attention of the last block, where CLS alone asks: value = t_cls + drop(W_out [m + gamma (a - m)] + b_out).

    With u_i = LayerNorm(t_i) and v_i = W_v u_i + b_v, m is the mean of all v_i and a = sum_i alpha_i v_i, head by head.
    One query needs neither keys nor values of its own for every token: z_i = (W_k^T q).u_i + q.b_k, and
    a = W_v (sum_i alpha_i u_i) + b_v sum_i alpha_i. Only the temperature asks for every v_i, for their dispersion.

    :class:`Pooled`: value (n, dim) is the CLS token as the last feed-forward gets it, weights (n, tokens) and
    details["logits"] are means over heads; gamma, temperature and (where a temperature asks for it) dispersion are
    those of the sample.

    >>> pooled = ReadOut(8, 2)(torch.randn(3, 5, 8))
    >>> pooled.value.shape, pooled.weights.shape
    (torch.Size([3, 8]), torch.Size([3, 5]))
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        first: bool = False,
        attention_dropout: float = 0.0,
        residual_dropout: float = 0.0,
        extrapolation: Extrapolation | None = None,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.norm = nn.Identity() if first else nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, attention_dropout, extrapolation)
        self.dropout = nn.Dropout(residual_dropout)

    def forward(self, h: Tensor) -> Pooled:
        """Read h (n, tokens, dim), CLS first; every row has every token, so there is no mask."""
        if not isinstance(h, Tensor) or h.dim() != 3:
            raise InputError("the read-out takes all tokens of a row, (n, tokens, dim): pass no Ragged and no mask")
        u: Tensor = self.norm(h)
        logits = self._logits(u)
        penalty = Penalty(logits.new_zeros(()), logits.new_zeros(()))
        details = {"logits": logits.mean(1)}
        ours = self.attention.extrapolation
        if ours is None:
            attended, weights = self._attend(u, logits)
        else:
            mean, sigma = self._statistics(u, ours)
            gamma, tau = ours.gamma(mean), ours.tau(sigma)
            attended, weights = self._attend(u, logits * sharpness(tau).view(-1, 1, 1))
            attended = extrapolate(mean, attended, gamma.unsqueeze(1)).to(attended.dtype)
            details |= {"gamma": gamma, "temperature": tau}
            details |= {} if ours.temperature is None else {"dispersion": sigma}
            penalty = ours.penalty(gamma)
        value = h[:, 0] + self.dropout(self.attention.outer(attended))
        return Pooled(value, weights.mean(1), penalty, details)

    def elements(self, h: Tensor) -> Tensor:
        """What the value is made of, for a monitor: t_cls + W_out v_i + b_out for each token of h, (n, tokens, dim).

        Where gamma is 1 and the heads agree on their weights, value = sum_i weights_i elements_i.

        >>> pool, h = ReadOut(8, 1), torch.randn(3, 5, 8)
        >>> pooled = pool(h)
        >>> torch.allclose(pooled.value, torch.bmm(pooled.weights[:, None], pool.elements(h))[:, 0], atol=1e-6)
        True
        """
        weight, bias = (x.chunk(3)[2] for x in self.attention.projection())
        return h[:, :1] + self.attention.outer(F.linear(self.norm(h), weight, bias))

    def _by_head(self) -> tuple[Tensor, Tensor]:
        """Weights (3, heads, head dim, dim) and biases (3, heads, 1, head dim) of q, k and v."""
        (weight, bias), heads = self.attention.projection(), self.attention.heads
        return weight.view(3, heads, -1, self.dim), bias.view(3, heads, 1, -1)

    def _logits(self, u: Tensor) -> Tensor:
        """z of the CLS query, (n, heads, tokens), in float32 or better."""
        weight, bias = self._by_head()
        heads, width = weight.shape[1:3]
        q = torch.baddbmm(bias[0], u[:, 0].expand(heads, -1, -1), weight[0].mT) * width**-0.5  # (heads, n, head dim)
        asked = torch.bmm(q, weight[1]).transpose(0, 1)
        return at_least_float32(torch.bmm(asked, u.mT) + (q * bias[1]).sum(-1).T.unsqueeze(-1))

    def _attend(self, u: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """a, (n, dim), under dropout, and the weights without it, (n, heads, tokens)."""
        weight, bias = self._by_head()
        weights = torch.softmax(logits, -1)
        left = F.dropout(weights, self.attention.dropout, self.training).to(u.dtype)
        seen = torch.bmm(left, u).transpose(0, 1)  # (heads, n, dim)
        attended = torch.bmm(seen, weight[2].mT) + left.sum(-1).T.unsqueeze(-1) * bias[2]
        return attended.transpose(0, 1).flatten(1), weights

    def _statistics(self, u: Tensor, ours: Extrapolation) -> tuple[Tensor, Tensor]:
        """Mean m, (n, dim), and dispersion, (n,), of the value vectors; the latter 0 where no temperature asks."""
        weight, bias = (x.chunk(3)[2] for x in self.attention.projection())
        if ours.temperature is not None:
            return statistics(F.linear(u, weight, bias))
        mean = at_least_float32(F.linear(u.mean(1), weight, bias))
        return mean, mean.new_zeros(len(mean))
