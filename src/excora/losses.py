"""Losses over a batch of predictions: correlation per target, and MSE + weight * correlation + penalties.

Every loss is called ``loss(prediction, target, mask=None, weight=None)`` with the shapes of :mod:`excora.moments`, and
returns one number: the mean over the *defined* targets. Where no target is defined the loss is exactly 0 with a zero
gradient that is still part of the graph. ``loss.undefined`` is the number of undefined targets of the last call, as a
tensor (reading it as a number waits for the device); calls within a torch.func transform do not count.

Losses have derivatives of every order, backward and forward, with respect to prediction and target, and work under
torch.func (grad, vmap, jvp, hessian).

Under torch.distributed a loss is that of the global batch, and every rank must call it: moments, squared errors and
penalties are reduced as sums and counts, so parameters' gradients under DistributedDataParallel equal one process.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.moments import Moments, absolute_error, moments, squared_error
from excora.reduce import all_reduce_sum
from excora.samples import columns, transformed

Pair = tuple[Tensor, Tensor]


class CorrelationLoss(nn.Module, ABC):
    """Base of the losses of one correlation: the mean over the defined targets of :meth:`terms`."""

    undefined: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("undefined", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(
        self, prediction: Tensor, target: Tensor, mask: Tensor | None = None, weight: Tensor | None = None
    ) -> Tensor:
        """The loss of the global batch, a scalar."""
        return self.of(moments(*columns(prediction, target, mask, weight), reduce=True))

    def of(self, m: Moments) -> Tensor:
        """The loss from moments already at hand."""
        count = m.defined.sum()
        if not transformed():
            self.undefined = m.defined.numel() - count
        return torch.dot(self.terms(m), m.defined / count.clamp_min(1).to(m.weight.dtype))

    @abstractmethod
    def terms(self, m: Moments) -> Tensor:
        """Loss of each target, (targets,); finite where undefined."""


class PearsonLoss(CorrelationLoss):
    """1 - rho, the mean over defined targets; between 0 and 2.

    Undefined targets (prediction or target constant up to 4 machine epsilons of its mean, fewer than 2 samples) count
    neither in the loss nor in the gradient.

    >>> PearsonLoss()(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0]))
    tensor(2.)
    """

    def terms(self, m: Moments) -> Tensor:
        """1 - rho."""
        return 1.0 - m.pearson


class DispersionNormalizedPearsonLoss(CorrelationLoss):
    """stopgrad(sigma_yhat) (1 - rho), the mean over defined targets: the gradient no longer fades as sigma_yhat grows.

    Undefined targets as in :class:`PearsonLoss`.

    >>> DispersionNormalizedPearsonLoss()(torch.tensor([0.0, 4.0]), torch.tensor([1.0, 0.0]))
    tensor(4.)
    """

    def terms(self, m: Moments) -> Tensor:
        """sigma_yhat (1 - rho), sigma_yhat a constant."""
        return m.scale_x * m.variance_x.detach().clamp_min(0.0).sqrt() * (1.0 - m.pearson)


class ConcordanceLoss(CorrelationLoss):
    """1 - 2 cov / (sigma_yhat^2 + sigma_y^2 + (mean yhat - mean y)^2), the mean over defined targets; in 0 to 2.

    Undefined targets as in :class:`PearsonLoss`.

    >>> ConcordanceLoss()(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0]))
    tensor(0.3333)
    """

    def terms(self, m: Moments) -> Tensor:
        """1 - concordance."""
        return 1.0 - m.concordance()


#: What a joint loss starts from, by name.
ERRORS = {"mse": squared_error, "mae": absolute_error}


class JointLoss(nn.Module):
    """MSE + weight * correlation loss + penalties, of the global batch.

    MSE = sum w (yhat - y)^2 / sum w over all unmasked entries of all targets; with ``error="mae"`` the
    absolute error in place of the square. ``correlation`` is one of the losses above. ``penalty``, given at the call,
    is a ``Penalty`` or another (sum, count) pair, of scalars or vectors, or several of them: each entry adds
    sum / max(count, 1). No unmasked entry gives an MSE of 0.

    >>> loss = JointLoss(PearsonLoss(), weight=0.5)
    >>> loss(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0]), penalty=(torch.tensor(6.0), torch.tensor(2)))
    tensor(4.)
    >>> loss.undefined
    tensor(0)
    """

    def __init__(self, correlation: CorrelationLoss | None = None, *, weight: float = 0.5, error: str = "mse") -> None:
        super().__init__()
        if not 0.0 <= weight < math.inf:
            raise InputError(f"weight must be a finite number of at least 0, got {weight}")
        if error not in ERRORS:
            raise InputError(f"error must be one of {', '.join(ERRORS)}, got {error!r}")
        self.error = error
        self.correlation = DispersionNormalizedPearsonLoss() if correlation is None else correlation
        self.weight = weight

    def forward(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        penalty: Pair | Iterable[Pair] | None = None,
    ) -> Tensor:
        """The loss of the global batch, a scalar."""
        x, y, w = columns(prediction, target, mask, weight)
        m = moments(x, y, w, reduce=True)
        error = ERRORS[self.error](x, y, w, m.weight.sum(), reduce=True).sum()
        loss = error + self.weight * self.correlation.of(m)
        return loss if penalty is None else loss + _penalty(penalty, loss)

    @property
    def undefined(self) -> Tensor:
        """Number of undefined targets of the last call."""
        return self.correlation.undefined

    def extra_repr(self) -> str:
        """The weight, in the module's printed form."""
        return f"weight={self.weight}" + ("" if self.error == "mse" else f", error={self.error!r}")


def _penalty(penalty: Pair | Iterable[Pair], loss: Tensor) -> Tensor:
    """sum over entries of (global sum) / max(global count, 1), in the dtype of the loss."""
    parts: list[Any] = list(penalty)
    pairs: list[Pair] = [(parts[0], parts[1])] if len(parts) == 2 and isinstance(parts[0], Tensor) else parts
    if any(len(pair) != 2 or pair[0].shape != pair[1].shape for pair in pairs):
        shapes = [[tuple(part.shape) for part in pair] for pair in pairs]
        raise InputError(f"penalty must be one or several (sum, count) pairs of equal shapes, got shapes {shapes}")
    if not pairs:
        return torch.zeros_like(loss)
    both = zip(*pairs, strict=True)
    stacked = torch.stack([torch.cat([part.reshape(-1).to(loss) for part in column]) for column in both])
    total, count = all_reduce_sum(stacked).unbind()
    return (total / count.detach().clamp_min(1.0)).sum()
