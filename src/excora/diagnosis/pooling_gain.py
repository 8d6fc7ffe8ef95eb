"""What pooling weights are worth on one's own sequences: alpha/kappa, and how well the covariance shows the signal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import InputError
from excora.pooling import Pool
from excora.theory.spectral import Recovery, recovery

Array = NDArray[np.float64]


class PoolingGain(NamedTuple):
    """Of one pool on one set of sequences."""

    weights: Array  #: (L,): mean effective weight of each place
    correlation: Array  #: (L, L): R, of the signal between places
    alpha: float  #: mean of w'Rw: the signal that the weights keep
    kappa: float  #: mean of w'w: the noise that they keep
    signal: float  #: r, the squared length of the signal, in units of a token's noise
    recovery: Recovery  #: where theory puts the signal's eigenvalue, and the alignment of its vector

    @property
    def gain(self) -> float:
        """alpha/kappa: what the weights are worth, all else equal; 1 for one place alone, or without correlation."""
        return self.alpha / self.kappa


def pooling_gain(pool: Pool, h: Tensor, mask: Tensor | None = None, *, vocabulary: float = np.inf) -> PoolingGain:
    """The worth of a trained pool's weights on sequences ``h`` (N, L, dim); real elements come first in each.

    One direction u is taken to carry the signal: the top eigenvector of what two places have in common, found on one
    half of the sequences and measured on the other, both ways. With p_l = x_l.u and s2 the variance across u::

        R_lm = cov(p_l, p_m) / S,   S = mean_l var(p_l) - s2,   r + delta = S / s2

    ``vocabulary``: the number of different tokens, if they are such. Weights that depend on the content are treated as
    if they did not, and u is not found exactly, so that r is too small on few sequences: a screen, no proof.

    >>> from excora.pooling import MeanPool
    >>> from excora.tasks.pooled_mixture import PooledMixtureTask
    >>> x, _ = PooledMixtureTask(dim=40, vocabulary=1000).sample(2000, seed=0)
    >>> 2.0 < pooling_gain(MeanPool(40), x, vocabulary=1000).gain < 3.0  # 2.48
    True
    """
    _check(h, mask)
    training = pool.training
    with torch.no_grad():
        effective = pool.eval()(h, mask).effective.double().cpu().numpy()
    pool.train(training)
    there = np.ones(h.shape[:2], bool) if mask is None else mask.cpu().numpy()
    x = _centred(h.detach().double().cpu().numpy(), there)
    parts = np.arange(len(x)) % 2 == 0
    found = [_measured(x[~half], there[~half], _direction(x[half])) for half in (parts, ~parts)]
    shared, across = np.mean([one[0] for one in found], 0), float(np.mean([one[1] for one in found]))
    size = float(np.diag(shared).mean()) - across  # S
    if not size > 0 or not across > 0:
        raise InputError("no direction stands out from the noise between places: more sequences may show one")
    correlation = shared / size
    np.fill_diagonal(correlation, 1.0)
    correlation = (correlation + correlation.T) / 2
    kappa = float((effective**2).sum(1).mean())
    alpha = max(float(np.einsum("nl,lm,nm->n", effective, correlation, effective).mean()), 0.0)
    delta = h.shape[2] / vocabulary
    signal = max(size / across - delta, 0.0)
    seen = recovery(signal, alpha / kappa, h.shape[2] / len(x), delta, kappa * across)
    return PoolingGain(effective.sum(0) / there.sum(0), correlation, alpha, kappa, signal, seen)


def _check(h: Tensor, mask: Tensor | None) -> None:
    if h.dim() != 3 or len(h) < 8 or h.shape[1] < 2 or h.shape[2] < 2:
        raise InputError(f"at least 8 sequences of 2 or more places and channels are needed, got {tuple(h.shape)}")
    if mask is not None and (not bool((mask[:, 1:] <= mask[:, :-1]).all()) or not bool(mask[::2].any(0).all())):
        raise InputError("real elements must come first in a sequence, and every place have some")


def _centred(x: Array, there: NDArray[np.bool_]) -> Array:
    """Each place without its mean; 0 where nothing is."""
    real = there[..., None]
    return np.where(real, x - np.where(real, x, 0).sum(0) / there.sum(0)[:, None], 0.0)


def _direction(x: Array) -> Array:
    """Top eigenvector of sum_(l != m) C_lm = cov(sum_l x_l) - sum_l cov(x_l): what places share, without noise."""
    total, flat = x.sum(1), x.reshape(-1, x.shape[2])
    return np.linalg.eigh(total.T @ total - flat.T @ flat)[1][:, -1]


def _measured(x: Array, there: NDArray[np.bool_], u: Array) -> tuple[Array, float]:
    """Covariance (L, L) of the places along ``u``, and the variance of a token across it."""
    along, real = x @ u, there.astype(float)
    pairs = np.maximum(real.T @ real, 1.0)
    across = ((x**2).sum() - (along**2).sum()) / (real.sum() * (x.shape[2] - 1))
    return along.T @ along / pairs, float(across)
