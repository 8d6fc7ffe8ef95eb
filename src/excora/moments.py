"""Centred statistics of prediction and target: pearson, concordance, mse_decomposition; masked, weighted, mergeable.

Shapes: ``prediction`` and ``target`` are both (n,), both (n, 1) or both (n, targets). Statistics run over the first
axis, so a result has shape ``prediction.shape[1:]``: one number a target. ``mask`` is boolean with True for a known
label, ``weight`` is non-negative, each of shape (n,), (n, 1) or (n, targets); a weight of 2 equals a repeated row, a
weight of 0 a masked one. Whatever stands under the mask (NaN included) reaches neither values nor gradients.
All statistics are population statistics (divided by the total weight), in float32 or better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.functional import safe_sqrt
from excora.reduce import all_reduce_sum, is_distributed
from excora.samples import columns

TOLERANCE = 4.0  # in units of machine epsilon: a standard deviation up to 4 eps |mean| is rounding, not spread


class Moments(NamedTuple):
    """Weighted moments of a batch, each (targets,): x is the prediction, y the target.

    Variances and covariance are those of x / scale_x and y / scale_y. The scales are powers of two of the size of the
    values, constants to autograd: float32 suffices from 1e-18 to 1e18, and scaling by them loses no digit.
    """

    offset: Tensor  # mean(x) - mean(y)
    variance_x: Tensor
    variance_y: Tensor
    covariance: Tensor
    pearson: Tensor  # cov / (sigma_yhat sigma_y), 0 with zero gradient where undefined
    defined: Tensor  # boolean: both standard deviations exceed 4 eps |mean|, which takes at least two samples
    scale_x: Tensor
    scale_y: Tensor
    weight: Tensor  # total weight W

    def concordance(self) -> Tensor:
        """Concordance 2 cov / (sigma_yhat^2 + sigma_y^2 + offset^2); 0 with zero gradient where undefined."""
        unit = torch.maximum(self.scale_x, self.scale_y)
        ratio_x, ratio_y = self.scale_x / unit, self.scale_y / unit
        squares = ratio_x.square() * self.variance_x + ratio_y.square() * self.variance_y
        squares = torch.where(self.defined, squares + (self.offset / unit).square(), 1.0)
        return torch.where(self.defined, 2.0 * ratio_x * ratio_y * self.covariance / squares, 0.0).clamp(-1.0, 1.0)


class _Frame(NamedTuple):
    """Where the data of a batch lie, per target: constants to autograd, as no moment in Moments depends on them."""

    weight: Tensor
    divisor: Tensor
    shift_x: Tensor
    shift_y: Tensor
    scale_x: Tensor
    scale_y: Tensor


def _frame(x: Tensor, y: Tensor, w: Tensor | None, reduce: bool) -> _Frame:
    """The frame: shift is the rounded mean, scale a power of two of the size of the values."""
    count = x.new_full((x.shape[1],), x.shape[0]) if w is None else w.sum(0)
    # A scale may be off by many powers of ten: some rows, and the mean in case those happen to be zero, will do.
    some = slice(None, None, x.shape[0] // 16 + 1)
    sizes = x[some].abs().sum(0), y[some].abs().sum(0)
    weight, sum_x, sum_y, size_x, size_y = _total(reduce, count, _sum(x, w), _sum(y, w), *sizes)
    divisor = _positive(weight)
    shift_x, shift_y = sum_x / divisor, sum_y / divisor
    scale_x, scale_y = _power_of_two(size_x + shift_x.abs()), _power_of_two(size_y + shift_y.abs())
    return _Frame(weight, divisor, shift_x, shift_y, scale_x, scale_y)


def _centred(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """(x - shift) / scale in one pass; multiplying by a power of two is exact, so it rounds once."""
    inverse = 1.0 / scale
    return torch.addcmul(-shift * inverse, x, inverse)


class _Scratch:
    """One buffer for the products of a forward pass: a fresh large tensor costs more than what is written into it."""

    def __init__(self, like: Tensor) -> None:
        self.buffer = None if torch.is_grad_enabled() or torch.compiler.is_compiling() else torch.empty_like(like)

    def sum(self, function: Callable[..., Tensor], *operands: Tensor | None) -> Tensor:
        """Sum over samples of function(*operands), the last operand being weights or None."""
        *values, w = operands
        z = function(*values) if self.buffer is None else function(*values, out=self.buffer)
        return (z if w is None else z * w if self.buffer is None else z.mul_(w)).sum(0)


def _in_frame(a: Tensor, b: Tensor, w: Tensor | None, f: _Frame, reduce: bool) -> tuple[Moments, Tensor, Tensor]:
    """Moments from a = (x - shift_x) / scale_x and b, and what rounding of the shifts left as means of a and b."""
    scratch = _Scratch(a)
    sums = _sum(a, w), _sum(b, w), *(scratch.sum(torch.mul, *pair, w) for pair in ((a, a), (b, b), (a, b)))
    rest_x, rest_y, xx, yy, xy = (total / f.divisor for total in _total(reduce, *sums))
    # The second of two passes: without the rest, a mean far from zero would cost half of the digits.
    variance_x, variance_y = _minus(xx, rest_x, rest_x), _minus(yy, rest_y, rest_y)
    covariance = _minus(xy, rest_x, rest_y)
    offset = _minus(torch.addcmul(f.shift_x - f.shift_y, f.scale_x, rest_x), f.scale_y, rest_y)
    above_x = _above_noise(variance_x, f.shift_x / f.scale_x)
    above_y = _above_noise(variance_y, f.shift_y / f.scale_y)
    # Not `> 0`: a NaN among the inputs must come out as NaN, not pass as an undefined target.
    undefined = torch.minimum(above_x, above_y) <= 0
    # Filled before the root: after it, the gradient of what is not taken would be NaN.
    rho = (covariance * (variance_x * variance_y).masked_fill(undefined, 1.0).rsqrt()).masked_fill(undefined, 0.0)
    m = Moments(offset, variance_x, variance_y, covariance, rho, ~undefined, f.scale_x, f.scale_y, f.weight)
    return m, rest_x, rest_y


class _Moments(torch.autograd.Function):
    """(x, y) -> the fields of Moments, of which only the first five carry a gradient.

    In units of scale_x, d variance_x = 2 (a - rest_a) w/W and d covariance = (b - rest_b) w/W; d offset/dx = w/W;
    d rho = rho (d covariance / covariance - d variance_x / (2 variance_x) - d variance_y / (2 variance_y)).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, w: Tensor | None, reduce: bool) -> Moments:
        frame = _frame(x, y, w, reduce)
        a, b = _centred(x, frame.shift_x, frame.scale_x), _centred(y, frame.shift_y, frame.scale_y)
        m, rest_a, rest_b = _in_frame(a, b, w, frame, reduce)
        ctx.reduce = reduce
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*m[5:])
        ctx.save_for_backward(x, y, w, a, b, rest_a, rest_b, *m[1:3], *m[4:6], *frame)
        return m

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, y, w, a, b, rest_a, rest_b, variance_x, variance_y, rho, defined, *frame = ctx.saved_tensors
        f = _Frame(*frame)
        filled = (torch.zeros_like(f.divisor) if grad is None else grad for grad in grads[:5])
        if torch.is_grad_enabled():  # what forward saved carries no graph: take the inputs again
            again = _with_graph(x, y, w, f, ctx.reduce)[:5]
            inputs = [z for z in (x, y) if z.requires_grad]
            found = iter(torch.autograd.grad(again, inputs, list(filled), create_graph=True))
            return *(next(found) if z.requires_grad else None for z in (x, y)), None, None
        offset, own_x, own_y, cross, whole = _total(ctx.reduce, *filled)
        undefined = ~defined
        half = -0.5 * whole * rho
        own_x = own_x + half / variance_x.masked_fill(undefined, 1.0)
        own_y = own_y + half / variance_y.masked_fill(undefined, 1.0)
        cross = (
            cross + whole.masked_fill(undefined, 0.0) * (variance_x * variance_y).masked_fill(undefined, 1.0).rsqrt()
        )
        grad_x = grad_y = None
        # First by the scale, then by the weight: the other order may leave the range of float32.
        if ctx.needs_input_grad[0]:
            own, other = 2.0 * own_x / f.scale_x / f.divisor, cross / f.scale_x / f.divisor
            grad_x = _pull(offset / f.divisor, own, other, (a, b), (rest_a, rest_b), w)
        if ctx.needs_input_grad[1]:
            own, other = 2.0 * own_y / f.scale_y / f.divisor, cross / f.scale_y / f.divisor
            grad_y = _pull(-offset / f.divisor, own, other, (b, a), (rest_b, rest_a), w)
        return grad_x, grad_y, None, None


def _with_graph(x: Tensor, y: Tensor, w: Tensor | None, f: _Frame, reduce: bool) -> Moments:
    """The moments in plain differentiable operations."""
    return _in_frame(_centred(x, f.shift_x, f.scale_x), _centred(y, f.shift_y, f.scale_y), w, f, reduce)[0]


def _pull(
    mean: Tensor, own: Tensor, other: Tensor, z: tuple[Tensor, Tensor], rest: tuple[Tensor, Tensor], w: Tensor | None
) -> Tensor:
    """w (mean + own (z_0 - rest_0) + other (z_1 - rest_1)), in two passes over the data."""
    constant = _minus(_minus(mean, own, rest[0]), other, rest[1])
    grad = torch.addcmul(constant, z[0], own).addcmul_(z[1], other)
    return grad if w is None else grad.mul_(w)


def _positive(z: Tensor) -> Tensor:
    """What can divide: 1 in place of zero and of what is too small to have an inverse."""
    return z.masked_fill(z < torch.finfo(z.dtype).tiny, 1.0)


def _power_of_two(z: Tensor) -> Tensor:
    """The power of two next above ``z`` >= 0, exactly; 1 for zero and for what is too small to have an inverse."""
    z = _positive(z)
    return z / torch.frexp(z).mantissa


def _minus(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.addcmul(c, a, b, value=-1.0)


def _above_noise(variance: Tensor, mean: Tensor) -> Tensor:
    return torch.addcmul(variance, mean, mean, value=-((TOLERANCE * torch.finfo(mean.dtype).eps) ** 2))


def _sum(z: Tensor, w: Tensor | None) -> Tensor:
    return (z if w is None else z * w).sum(0)


def _total(reduce: bool, *parts: Tensor) -> tuple[Tensor, ...]:
    """The parts, on request summed over the ranks: then every rank must call it, whatever its share of the batch."""
    return all_reduce_sum(torch.stack(parts)).unbind() if reduce and is_distributed() else parts


def moments(x: Tensor, y: Tensor, w: Tensor | None, *, reduce: bool = False) -> Moments:
    """Moments of what :func:`columns` returned; ``reduce`` makes them those of the global batch, over all ranks.

    With ``reduce`` forward and backward are collective: every rank calls both, a rank without samples included.
    """
    if not torch.compiler.is_compiling():
        return Moments(*_Moments.apply(x, y, w, reduce))
    # A compiler derives and fuses the backward by itself.
    return _with_graph(x, y, w, _frame(x.detach(), y.detach(), w, reduce), reduce)


def squared_error(x: Tensor, y: Tensor, w: Tensor | None, weight: Tensor, *, reduce: bool = False) -> Tensor:
    """sum_i w_i (x_i - y_i)^2 / weight, (targets,): from the differences, so that nothing cancels; 0 for no weight."""
    # The root goes in before the square: the sum of squares would overflow where the mean does not.
    difference = (x - y) * _positive(weight).rsqrt()
    return _total(reduce, _sum(difference.square(), w))[0]


def pearson(prediction: Tensor, target: Tensor, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Pearson correlation rho = cov(yhat, y) / (sigma_yhat sigma_y) of this process's samples, per target.

    Where it is undefined (fewer than 2 samples, or a standard deviation of prediction or target of at most 4 machine
    epsilons of its mean) it is 0 with zero gradient. Shapes as stated at the top of this module.

    >>> pearson(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2.0, 4.0, 8.0]))
    tensor(1.)
    >>> pearson(torch.tensor([[1.0, 5.0], [2.0, 5.0]]), torch.tensor([[3.0, 1.0], [1.0, 2.0]]))
    tensor([-1.,  0.])
    """
    return moments(*columns(prediction, target, mask, weight)).pearson.clamp(-1.0, 1.0).reshape(prediction.shape[1:])


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
