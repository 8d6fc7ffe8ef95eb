"""Centred statistics of prediction and target: pearson, concordance, mse_decomposition; masked, weighted, mergeable.

Shapes: ``prediction`` and ``target`` are both (n,), both (n, 1) or both (n, targets). Statistics run over the first
axis, so a result has shape ``prediction.shape[1:]``: one number a target. ``mask`` is boolean with True for a known
label, ``weight`` is non-negative, each of shape (n,), (n, 1) or (n, targets); a weight of 2 equals a repeated row, a
weight of 0 a masked one. Whatever stands under the mask (NaN included) reaches neither values nor gradients.
All statistics are population statistics (divided by the total weight), in float32 or better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from excora.functional import safe_sqrt
from excora.reduce import all_reduce_sum, is_distributed
from excora.samples import columns

TOLERANCE = 4.0  # in units of machine epsilon: a standard deviation up to 4 eps |mean| is rounding, not spread


class _Frame(NamedTuple):
    """Where the data of a batch lie, per target: constants to autograd, as no moment depends on them."""

    weight: Tensor  # (targets,), total weight W
    divisor: Tensor  # (targets,), W or, in place of zero, 1
    shift: Tensor  # (2, targets), of x and of y: the rounded mean
    scale: Tensor  # (2, targets), a power of two of the size of the values


@dataclass  # no tuple: torch 2.8 does not trace its properties
class Moments:
    """Weighted moments of a batch, each (targets,): x is the prediction, y the target.

    Variances and covariance are those of x / scale_x and y / scale_y. The scales are powers of two of the size of the
    values, constants to autograd: float32 suffices from 1e-18 to 1e18, and scaling by them loses no digit.
    """

    variance_x: Tensor
    variance_y: Tensor
    covariance: Tensor
    pearson: Tensor  # cov / (sigma_yhat sigma_y), 0 with zero gradient where undefined
    defined: Tensor  # boolean: both standard deviations exceed 4 eps |mean|, which takes at least two samples
    rest_x: Tensor  # mean(x) / scale_x = shift_x / scale_x + rest_x: the mean's derivative, and its last digits
    rest_y: Tensor
    frame: _Frame

    @property
    def weight(self) -> Tensor:
        """Total weight W."""
        return self.frame.weight

    @property
    def scale_x(self) -> Tensor:
        """Unit of the prediction."""
        return self.frame.scale[0]

    @property
    def scale_y(self) -> Tensor:
        """Unit of the target."""
        return self.frame.scale[1]

    @property
    def offset(self) -> Tensor:
        """mean(x) - mean(y)."""
        return self.frame.shift[0] - self.frame.shift[1] + self.scale_x * self.rest_x - self.scale_y * self.rest_y

    def concordance(self) -> Tensor:
        """Concordance 2 cov / (sigma_yhat^2 + sigma_y^2 + offset^2); 0 with zero gradient where undefined."""
        unit = torch.maximum(self.scale_x, self.scale_y)
        ratio_x, ratio_y = self.scale_x / unit, self.scale_y / unit
        squares = ratio_x.square() * self.variance_x + ratio_y.square() * self.variance_y
        squares = torch.where(self.defined, squares + (self.offset / unit).square(), 1.0)
        return _bounded(torch.where(self.defined, 2.0 * ratio_x * ratio_y * self.covariance / squares, 0.0))


def _frame(x: Tensor, y: Tensor, w: Tensor | None, reduce: bool) -> _Frame:
    count = x.new_full((x.shape[1],), x.shape[0]) if w is None else w.sum(0)
    # A scale may be off by many powers of ten: some rows, and the mean in case those happen to be zero, will do.
    some = slice(None, None, x.shape[0] // 16 + 1)
    parts = torch.stack([count, _sum(x, w), _sum(y, w), x[some].abs().sum(0), y[some].abs().sum(0)])
    parts = all_reduce_sum(parts) if reduce else parts
    weight = parts[0]
    divisor = _positive(weight)
    shift = parts[1:3] / divisor
    return _Frame(weight, divisor, shift, _power_of_two(parts[3:] + shift.abs()))


def moments(x: Tensor, y: Tensor, w: Tensor | None, *, reduce: bool = False) -> Moments:
    """Moments of what :func:`columns` returned; ``reduce`` makes them those of the global batch, over all ranks.

    With ``reduce`` forward and backward are collective: every rank calls both, a rank without samples included.
    With a = (x - shift_x) / scale_x and b likewise: var = mean(a^2) - mean(a)^2, cov = mean(ab) - mean(a) mean(b),
    for any constant shift. So the shift, the rounded mean, needs no derivative, and only rounding remains in mean(a):
    without its square, a mean far from zero would cost half of the digits.
    """
    frame = _frame(x.detach(), y.detach(), w, reduce)
    inverse = frame.scale.reciprocal()
    centre = frame.shift * inverse
    # Multiplying by a power of two is exact, so each rounds once.
    a, b = (torch.addcmul(-c, z, i) for c, z, i in zip(centre.unbind(), (x, y), inverse.unbind(), strict=True))
    sums = _total(reduce, _sum(a, w), _sum(b, w), _sum(a * a, w), _sum(b * b, w), _sum(a * b, w))
    share = frame.divisor.reciprocal()
    rest_x, rest_y, xx, yy, xy = (total * share for total in sums)
    variance_x, variance_y, covariance = xx - rest_x * rest_x, yy - rest_y * rest_y, xy - rest_x * rest_y
    undefined = _undefined(variance_x.detach(), variance_y.detach(), centre)
    # Filled before the root: after it, the derivatives of what is not taken would be NaN. Two roots, as powers of the
    # inverse of one, of the product, would leave the range of float32 in higher derivatives.
    sigma_x, sigma_y = (v.masked_fill(undefined, 1.0).sqrt() for v in (variance_x, variance_y))
    rho = _bounded(covariance.masked_fill(undefined, 0.0) / (sigma_x * sigma_y))
    return Moments(variance_x, variance_y, covariance, rho, ~undefined, rest_x, rest_y, frame)


def _undefined(variance_x: Tensor, variance_y: Tensor, mean: Tensor) -> Tensor:
    """Whether sigma_x <= 4 eps |mean_x| or the same of y, ``mean`` being (2, targets)."""
    noise_x, noise_y = (TOLERANCE * torch.finfo(mean.dtype).eps * mean).square().unbind()
    # Not `> 0`: a NaN among the inputs must come out as NaN, not pass as an undefined target.
    return torch.minimum(variance_x - noise_x, variance_y - noise_y) <= 0


def _positive(z: Tensor) -> Tensor:
    """What can divide: 1 in place of zero and of what is too small to have an inverse."""
    return torch.threshold(z, torch.finfo(z.dtype).tiny, 1.0)


def _power_of_two(z: Tensor) -> Tensor:
    """The power of two next above ``z`` >= 0, exactly; 1 for zero and for what is too small to have an inverse."""
    z = _positive(z)
    return z / torch.frexp(z).mantissa


def _bounded(z: Tensor) -> Tensor:
    """``z`` without what rounding put beyond -1 or 1; its derivatives stay, which a clamp would make zero there."""
    rounded = z.detach()
    return z + (rounded.clamp(-1.0, 1.0) - rounded)


def _sum(z: Tensor, w: Tensor | None) -> Tensor:
    return (z if w is None else z * w).sum(0)


def _total(reduce: bool, *parts: Tensor) -> tuple[Tensor, ...]:
    """The parts, on request summed over the ranks: then every rank must call it, whatever its share of the batch."""
    return all_reduce_sum(torch.stack(parts)).unbind() if reduce and is_distributed() else parts


def squared_error(x: Tensor, y: Tensor, w: Tensor | None, weight: Tensor, *, reduce: bool = False) -> Tensor:
    """sum_i w_i (x_i - y_i)^2 / weight, (targets,): from the differences, so that nothing cancels; 0 for no weight."""
    divisor = _positive(weight)
    # The root of the sample's share goes in before the square: no term then exceeds the largest squared difference.
    root = divisor.rsqrt() if w is None else (w / divisor).sqrt()
    return _total(reduce, ((x - y) * root).square().sum(0))[0]


def absolute_error(x: Tensor, y: Tensor, w: Tensor | None, weight: Tensor, *, reduce: bool = False) -> Tensor:
    """sum_i w_i |x_i - y_i| / weight, (targets,); 0 for no weight."""
    share = 1.0 if w is None else w
    return _total(reduce, ((x - y).abs() * share / _positive(weight)).sum(0))[0]


def pearson(prediction: Tensor, target: Tensor, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Pearson correlation rho = cov(yhat, y) / (sigma_yhat sigma_y) of this process's samples, per target.

    Where it is undefined (fewer than 2 samples, or a standard deviation of prediction or target of at most 4 machine
    epsilons of its mean) it is 0 with zero gradient. Shapes as stated at the top of this module.

    >>> pearson(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2.0, 4.0, 8.0]))
    tensor(1.)
    >>> pearson(torch.tensor([[1.0, 5.0], [2.0, 5.0]]), torch.tensor([[3.0, 1.0], [1.0, 2.0]]))
    tensor([-1.,  0.])
    """
    return moments(*columns(prediction, target, mask, weight)).pearson.reshape(prediction.shape[1:])


def concordance(prediction: Tensor, target: Tensor, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Concordance 2 cov(yhat, y) / (sigma_yhat^2 + sigma_y^2 + (mean yhat - mean y)^2) of this process, per target.

    A correlation that also asks for the target's mean and scale. Undefined, and then 0, where :func:`pearson` is.

    >>> concordance(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0]))
    tensor(0.6667)
    """
    return moments(*columns(prediction, target, mask, weight)).concordance().reshape(prediction.shape[1:])


class MSEDecomposition(NamedTuple):
    """The three terms of the mean squared error and the error itself, each of shape ``prediction.shape[1:]``."""

    offset: Tensor
    scale: Tensor
    correlation: Tensor
    mse: Tensor


def mse_decomposition(
    prediction: Tensor, target: Tensor, mask: Tensor | None = None, weight: Tensor | None = None
) -> MSEDecomposition:
    """MSE = (mean yhat - mean y)^2 + (sigma_yhat - sigma_y)^2 + 2 sigma_y sigma_yhat (1 - rho), per target (Prop 2.1).

    ``mse`` comes from the differences, not from the terms. A constant prediction or target has the terms of its zero
    standard deviation; no samples give zeros.

    >>> mse_decomposition(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 4.0]))  # doctest: +ELLIPSIS
    MSEDecomposition(offset=tensor(0.), scale=tensor(1.), correlation=tensor(0.), mse=tensor(1.0...))
    """
    x, y, w = columns(prediction, target, mask, weight)
    m = moments(x, y, w)
    sigma_x, sigma_y = m.scale_x * safe_sqrt(m.variance_x), m.scale_y * safe_sqrt(m.variance_y)
    terms = (
        m.offset.square(),
        (sigma_x - sigma_y).square(),
        2.0 * sigma_x * sigma_y * (1.0 - m.pearson),
        squared_error(x, y, w, m.weight),
    )
    return MSEDecomposition(*(term.reshape(prediction.shape[1:]) for term in terms))
