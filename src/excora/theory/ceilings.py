"""Why the correlation stops rising, II: what convex attention weights can reach, proven and estimated.

Per-bag quantities only, so that an epoch can be streamed: ``radius`` is R_s = max_i ||h_si - mu_s||,
``mean_prediction`` is ybar_s = w.mu_s + c, ``lowest`` and ``highest`` are the extreme element predictions of a bag.
Shapes, masks and weights as in :mod:`excora.theory.plateau`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, safe_sqrt
from excora.samples import columns
from excora.theory.plateau import Bound, head_norm, make_bound, measure, spread


def rms_over_bags(values: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Batch summary of a per-bag quantity: sqrt(mean_s x_s^2), which is sigma~ of dispersions and R~ of radii.

    >>> rms_over_bags(torch.tensor([3.0, 4.0, 5.0]), weight=torch.tensor([1.0, 1.0, 0.0]))
    tensor(3.5355)

    Zero when no bag is present.
    """
    share = spread(values, mask, weight).share
    x = torch.where(share > 0, columns(values, values, mask, weight)[0], 0.0)
    return safe_sqrt((share * x.square()).sum(0)).reshape(values.shape[1:])


def dispersion_interval(radius: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Interval of the dispersion given the radius (D.3): R_s/sqrt(n_s) <= sigma_s <= R_s.

    The same call bounds the batch summaries, R~/sqrt(n_max) <= sigma~ <= R~. The upper end is reached by two
    elements; the lower one up to the factor sqrt(n/(n-1)), by one element apart from all others.

    >>> dispersion_interval(torch.tensor(2.0), torch.tensor(4))
    (tensor(1.), tensor(2.))
    """
    return radius / count.clamp_min(1).to(radius.dtype).sqrt(), radius


def element_deviation_bound(dispersion: Tensor, count: Tensor) -> Tensor:
    """Distance of an element from any convex pool of its bag (C.1): ||h_si - v_s|| <= 2 sqrt(n_s) sigma_s.

    The supremum of distance/bound is 1/sqrt(2): two opposite elements, all others in the middle.

    >>> element_deviation_bound(torch.tensor(1.5), torch.tensor(4))
    tensor(6.)
    """
    return 2.0 * count.to(dispersion.dtype).sqrt() * dispersion


def standardised_bound(share: Tensor) -> Tensor:
    """Largest entry of a centred unit-variance vector (C.2): |x_j| <= sqrt(S-1), or sqrt((1-p_j)/p_j) with weights.

    ``share`` is p_j, 1/S when unweighted. Reached by a vector equal everywhere but at j. Infinite at share 0.

    >>> standardised_bound(torch.tensor(1 / 5))
    tensor(2.)
    """
    return ((1.0 - share) / share).sqrt()


def prediction_shift_bound(radius: Tensor, head: Tensor) -> Tensor:
    """How far convex weights can move a prediction from that of the mean: |yhat_s - ybar_s| <= ||w|| R_s.

    (bags,) for a head (dim,), (bags, targets) for (targets, dim). Reached by all weight on the outermost element
    if that lies along w.

    >>> prediction_shift_bound(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([ 5., 10.])
    """
    norm = at_least_float32(head).norm(dim=-1)
    return radius * norm if head.dim() == 1 else radius.unsqueeze(-1) * norm


def cosine_change_bound(base: Tensor, change: Tensor) -> Bound:
    """Perturbation lemma (D.2): adding delta to b changes its cosine with any vector by at most 2|delta|/(|b|-|delta|).

    ``base`` is |b|, ``change`` is |delta|, any equal shapes. The supremum of change/bound is 1/2, as delta -> 0.

    >>> cosine_change_bound(torch.tensor([5.0, 1.0]), torch.tensor([1.0, 1.0])).value
    tensor([0.5000,    nan])

    Does not apply for |delta| >= |b|; vacuous from 2 on, since two cosines cannot differ by more.
    """
    base, change = torch.broadcast_tensors(base, change)
    applies = change < base
    value = 2.0 * change / torch.where(applies, base - change, 1.0)
    return make_bound(value, applies, value >= 2.0, "it needs |delta| < |b|", "cosines differ by at most 2")


def hull_bound(
    mean_prediction: Tensor,
    radius: Tensor,
    head: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | None = None,
) -> Bound:
    """How far ANY convex weights move PCC (Thm 2.2): |rho - rho_0| <= 2 R~ / (sigma_0/||w|| - R~).

    sigma_0 = std(ybar), rho_0 = PCC(y, ybar); ``radius`` (bags,), ``head`` (dim,) or (targets, dim). ``mask`` is that
    of the labels: bags without one take no part. The supremum of |rho - rho_0|/bound is 1/2, as R~ -> 0.

    >>> hull_bound(torch.tensor([-1.0, 1.0]), torch.tensor([0.1, 0.1]), torch.tensor([2.0])).value
    tensor(0.5000)

    Does not apply when R~ >= sigma_0/||w|| (most real data) or the mean prediction is constant; vacuous from 2 on.
    """
    batch = spread(mean_prediction, mask, weight)
    rms_radius = safe_sqrt((batch.share * at_least_float32(radius).square().unsqueeze(1)).sum(0))
    reach = head_norm(head, batch.share.shape[1]) * rms_radius
    bound = cosine_change_bound(batch.prediction_std, reach)
    shape = mean_prediction.shape[1:]
    return make_bound(
        bound.value.reshape(shape),
        (bound.applies & batch.defined).reshape(shape),
        bound.vacuous.reshape(shape),
        "it needs R~ < sigma_0/||w||, bags tighter than the spread between them",
        "two correlations differ by at most 2",
    )


def hull_ceiling(
    mean_prediction: Tensor,
    target: Tensor,
    radius: Tensor,
    head: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | None = None,
) -> Bound:
    """Proven ceiling of PCC for ANY convex weights under this head: rho <= rho_0 + :func:`hull_bound`.

    >>> y = torch.tensor([-1.0, 1.0, 3.0, 5.0])
    >>> hull_ceiling(y * torch.tensor([1, -1, 1, 1]), y, torch.full((4,), 0.01), torch.tensor([1.0])).value
    tensor(0.9545)

    Does not apply where the hull bound does not, or rho_0 is undefined; vacuous from 1 on.
    """
    batch = measure(mean_prediction, target, mask, weight)
    bound = hull_bound(mean_prediction, radius, head, mask=mask, weight=weight)
    shape = bound.value.shape
    value = batch.pcc.reshape(shape) + bound.value
    rule = "it needs R~ < sigma_0/||w|| and a defined rho_0"
    return make_bound(value, bound.applies & batch.defined.reshape(shape), value >= 1.0, rule, "PCC is at most 1")


def prediction_range(
    h: Tensor, head: Tensor, bias: Tensor | float = 0.0, *, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Smallest and largest element prediction of each bag, min_i and max_i of w.h_si + c: the reach of convex weights.

    ``h`` (bags, elements, dim), ``mask`` the element mask; (bags,) for a head (dim,), (bags, targets) for
    (targets, dim). An empty bag predicts c.

    >>> prediction_range(torch.tensor([[[1.0], [3.0]]]), torch.tensor([2.0]), 1.0)
    (tensor([3.]), tensor([7.]))
    """
    scores = blank_padding(at_least_float32(h), mask) @ at_least_float32(head).t()
    if mask is None:
        mask = torch.ones(h.shape[:2], dtype=torch.bool, device=h.device)
    real, full = (mask, mask.any(1)) if head.dim() == 1 else (mask.unsqueeze(-1), mask.any(1, keepdim=True))
    lowest = scores.masked_fill(~real, torch.inf).amin(1)
    highest = scores.masked_fill(~real, -torch.inf).amax(1)
    return torch.where(full, lowest, 0.0) + bias, torch.where(full, highest, 0.0) + bias


def _box_loss(u: Tensor, low: Tensor, high: Tensor, share: Tensor, offset: Tensor, slope: Tensor) -> Tensor:
    """Mean square distance of u from the moved box [offset + slope low, offset + slope high]."""
    over = (u - offset - slope * high).clamp_min(0.0)
    under = (offset + slope * low - u).clamp_min(0.0)
    return (share * (over.square() + under.square())).sum(0)


def _fit_box(u: Tensor, low: Tensor, high: Tensor, share: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Newton's method with a line search on :func:`_box_loss` by (offset, slope), all targets at once."""
    offset = torch.zeros_like(slope)
    loss = _box_loss(u, low, high, share, offset, slope)
    precision = torch.finfo(u.dtype).eps
    finished = loss <= precision**2
    for _ in range(100):
        over, under = u - offset - slope * high, u - offset - slope * low
        edge = torch.where(over > 0, high, low)
        active = share * ((over > 0) | (under < 0))
        residual = active * torch.where(over > 0, over, under)
        # Least squares of u on the edge it sticks out of; the damping makes one sticking bag, or none, solvable.
        down = (residual.sum(0), (residual * edge).sum(0))
        h00, h01, h11 = active.sum(0), (active * edge).sum(0), (active * edge.square()).sum(0)
        h00, h11 = h00 * (1 + 64 * precision) + precision**2, h11 * (1 + 64 * precision) + precision**2
        det = h00 * h11 - h01 * h01
        step = ((h11 * down[0] - h01 * down[1]) / det, (h00 * down[1] - h01 * down[0]) / det)
        gain = step[0] * down[0] + step[1] * down[1]
        length = torch.ones_like(slope)
        for _ in range(30):
            trial = _box_loss(u, low, high, share, offset + length * step[0], slope + length * step[1])
            worse = (trial > loss - 0.5 * length * gain.abs()) & ~finished
            if not bool(worse.any()):
                break
            length = torch.where(worse, 0.5 * length, length)
        better = (trial < loss) & ~finished
        offset = torch.where(better, offset + length * step[0], offset)
        slope = torch.where(better, slope + length * step[1], slope)
        finished = ~better | (loss - trial <= precision * loss) | (trial <= precision**2)
        loss = torch.where(better, trial, loss)
        if bool(finished.all()):
            break
    return offset, slope


@torch.no_grad()
def best_in_box(
    lowest: Tensor, highest: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """The prediction of highest PCC with the target among lowest_s <= p_s <= highest_s, shaped as ``target``.

    For 0 < rho the maximum is p = clip((y - alpha)/t, lowest, highest) with (alpha, t) minimising the convex
    mean_s dist(y_s, [alpha + t lowest_s, alpha + t highest_s])^2 = sigma_y^2 (1 - rho^2), so a local minimum is the
    global one. Cost: some 5 to 20 passes over the bags.

    >>> low, high = torch.tensor([0.0, 0.0, 2.0]), torch.tensor([1.0, 1.0, 2.5])
    >>> best_in_box(low, high, torch.tensor([0.0, 1.0, 2.0]))
    tensor([0., 1., 2.])

    Where no p in the box correlates positively with the target, the p of the largest covariance is returned.
    """
    if lowest.shape != target.shape or highest.shape != target.shape:
        raise InputError(
            f"lowest, highest and target must have one shape, got {tuple(lowest.shape)}, {tuple(highest.shape)} and "
            f"{tuple(target.shape)}"
        )
    low, y, w = columns(lowest, target, mask, weight)
    high = columns(highest, target, mask, weight)[0]
    if bool((low > high).any()):
        raise InputError("lowest must not exceed highest anywhere: take both from prediction_range")
    u = spread(y, None, w).prediction
    vertex = torch.where(u > 0, high, low)
    batch = measure(vertex, y, None, w)
    positive = batch.defined & (batch.pcc > 0)
    middle = (batch.share * vertex).sum(0)
    unit = torch.where(positive, batch.prediction_std, 1.0)
    start = torch.where(positive, batch.pcc, 1.0)
    # Where no positive correlation exists the slope would turn negative: a box of zeros there ends at once.
    scaled = u, (low - middle) / unit, (high - middle) / unit
    fit_u, fit_low, fit_high = (torch.where(positive, x, 0.0) for x in scaled)
    offset, slope = _fit_box(fit_u, fit_low, fit_high, batch.share, start)
    inside = middle + unit * (u - offset) / torch.where(positive, slope, 1.0)
    best = torch.where(positive, inside.clamp(low, high), vertex)
    return best.reshape(target.shape)


@torch.no_grad()
def achievable_ceiling(
    lowest: Tensor, highest: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Bound:
    """ESTIMATE of the best PCC over convex weights under the current head: max PCC(y, p) over lowest <= p <= highest.

    Exact for the bags it is given and weights that may look at the label; an estimate, because a scorer sees only the
    bag (so it may stay below) and a further trained head moves the box (so it may rise). With several targets each
    has its own box, while one pool shares its weights. ``lowest``, ``highest`` come from :func:`prediction_range`.

    >>> low = torch.tensor([0.0, 1.0, 0.0, 0.0])
    >>> achievable_ceiling(low, low + 0.5, torch.tensor([0.0, 1.0, 2.0, 3.0])).value
    tensor(0.3162)

    Vacuous at 1 (to rounding): the box holds the target itself, up to scale. Does not apply when no p in the box has
    a positive correlation, or target or box are constant.
    """
    batch = measure(best_in_box(lowest, highest, target, mask=mask, weight=weight), target, mask, weight)
    shape = target.shape[1:]
    value = batch.pcc.clamp_max(1.0).reshape(shape)
    return make_bound(
        value,
        (batch.defined & (batch.pcc > 0)).reshape(shape),
        value >= 1.0 - 16 * torch.finfo(value.dtype).eps,
        "no convex weights give a positive PCC under this head",
        "convex weights can already fit the target, PCC 1",
        estimate=True,
    )
