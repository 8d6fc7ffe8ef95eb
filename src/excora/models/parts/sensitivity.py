"""How much each column of a table moves a kernel regression of the labels: weights for a search, without training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from excora.pooling.elliptical import metric

#: Numbers in memory at once: 32 MB of them.
TILE = 1 << 22


def column_sensitivity(
    x: Tensor,
    y: Tensor,
    excluded: Callable[[Tensor, Tensor], Tensor],
    *,
    seed: int = 0,
    queries: int = 256,
    candidates: int = 2048,
) -> Tensor:
    """m (columns,) in (0, 1], its largest 1: elliptical attention's metric of yhat(x) = sum_i alpha_i y_i.

        alpha_i of row s proportional to exp(-|x_s - x_i|^2) over the rows it may see
        d yhat_s / d x_c = 2 cov_alpha(x_c, y),   m_c = mean_s |.|_1 over its largest, of each row and then of the mean

    ``x`` (n, columns), scaled so that near rows are at about 1; ``y`` (n, targets). Rows are drawn from ``seed``; one
    that may see nobody does not count. Without any, all columns count alike.

    >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    >>> m = column_sensitivity(x, x[:, :1].sin(), lambda a, b: a == b)
    >>> m[0].item(), m[1].item() < 0.5
    (1.0, True)
    """
    generator = torch.Generator().manual_seed(seed)
    query = torch.randperm(len(x), generator=generator)[:queries]
    candidate = torch.randperm(len(x), generator=generator)[:candidates]
    near, label = x[candidate], y[candidate].to(x.dtype)
    total = x.new_zeros(x.shape[1])
    step = max(TILE // max(near.numel(), 1), 1)
    for part in query.split(step):
        logits = torch.addmm(-near.square().sum(1), 2 * x[part], near.T)
        hidden = excluded(part[:, None], candidate)
        some = ~hidden.all(1)
        alpha = torch.softmax(logits.masked_fill(hidden, -torch.inf)[some], 1)
        size = (len(alpha), *near.shape)
        total += metric(alpha, near.expand(size), label.expand(len(alpha), *label.shape)).sum(0)
    return total / total.max() if bool(total.max() > 0) else torch.ones_like(total)
