"""Elliptical attention pooling: channels count in a score by how much they move the result."""

from __future__ import annotations

from torch import Tensor

from excora.functional import at_least_float32, full_precision, least_divisor, masked_softmax, shortened
from excora.pooling.base import register_pool
from excora.pooling.plain import LinearScorer
from excora.pooling.weighing import Weighed, WeighingPool

#: Added to the sensitivities, in units of the elements' mean square: elements that are all alike have no metric but 1.
LEAST = 1e-6


def metric(alpha: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """m (..., channels) in (0, 1], largest entry 1: how much the attended value moves with each channel of the query.

        H(q) = sum_i alpha_i v_i,  alpha = softmax(q.k_i or -|q - k_i|^2 / 2):   dH/dq_c = cov_alpha(k_c, v)
        m_c = |dH/dq_c|_1 / max_c' |dH/dq_c'|_1

    ``alpha`` (..., n), ``keys`` (..., n, channels), ``values`` (..., n, width). A scale of the logits cancels.

    DIFF: the derivative itself; the paper takes differences, of finite steps or of the values of two layers.

    >>> keys = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> metric(torch.full((4,), 0.25), keys, keys[:, :1])  # the value is the first channel
    tensor([1.0000e+00, 4.0000e-06])
    """
    keys, values = (shortened(x, dim=(-2, -1)) for x in (keys, values))  # whose scale cancels
    share = alpha.unsqueeze(-1)
    k = keys - (share * keys).sum(-2, keepdim=True)
    v = values - (share * values).sum(-2, keepdim=True)
    moved = ((share * k).mT @ v).abs().sum(-1)
    least = LEAST * (share * (keys.square().mean(-1, keepdim=True) + values.square().mean(-1, keepdim=True))).sum(-2)
    moved = moved + least
    # Of zeros alone nothing moves; filled before the division, so that it has derivatives.
    moved = moved.masked_fill(moved.amax(-1, keepdim=True) <= least_divisor(moved.dtype), 1.0)
    return moved / moved.amax(-1, keepdim=True)


@register_pool("elliptical", label="elliptical attention", convex=True, usual=False)
class EllipticalPool(WeighingPool):
    """v = sum_i alpha_i h_i, alpha = softmax(sum_c m_c w_c h_ic / sqrt(dim)), m the :func:`metric` of a plain softmax.

    Channels that do not move the pooled value count less in the score, so that noise in them disturbs it less. No
    parameter beyond those of softmax attention. ``dropout`` takes elements out. An empty bag gives zeros, elements that
    are all alike the mean of the bag. After Elliptical Attention (Nielsen et al., NeurIPS 2024, arXiv 2406.13770).

    DIFF: a gradient flows through m; the paper stops it there.

    >>> EllipticalPool(4)(torch.randn(2, 3, 4)).value.shape
    torch.Size([2, 4])
    """

    def __init__(self, dim: int, *, dropout: float = 0.0) -> None:
        super().__init__(dim, dropout=dropout)
        self.scorer = LinearScorer(dim)

    def read(self, h: Tensor) -> Tensor:
        """The elements themselves: the metric needs all of their channels."""
        return at_least_float32(h)

    def weigh(self, x: Tensor, valid: Tensor | None) -> Weighed:
        """Twice a softmax: the first says what matters."""
        with full_precision(x.device):
            w = self.scorer.weight.to(x.dtype) * self.scorer.scale
            m = metric(masked_softmax(x @ w, valid), x, x)
            logits = (x @ (m * w).unsqueeze(-1)).squeeze(-1)
        alpha = masked_softmax(logits, valid)
        return Weighed(alpha, alpha, {"logits": logits, "metric": m})
