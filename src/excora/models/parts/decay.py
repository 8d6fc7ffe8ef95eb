"""Old neighbours count less: the best weights under a task that drifts, as one more channel of the keys."""

from __future__ import annotations

import torch
from torch import Tensor

from excora.data.dataset import Index
from excora.errors import InputError

#: Rows whose weights are solved for at once.
_ROWS = 4096
#: The least weight, over the largest.
LEAST = 1e-6


def decay_channel(query: Tensor, times: Tensor, allowed: Tensor, *, memory: float, dim: int) -> Tensor:
    """c (n, k), at least 0, with exp(-c_i^2) proportional to the best weights omega of the neighbours under drift.

        omega = M^-1 r,   M = C + (dim + 2) I,   C_ij = exp(-|t_i - t_j| / memory),   r_i = exp(-|t - t_i| / memory)

    :func:`excora.theory.in_context.drift` with labels and noise of variance 1. ``query`` (n,), ``times`` and
    ``allowed`` (n, k). As a key's difference from the query, c makes a softmax over -|difference|^2 multiply its
    weights by omega. omega is positive: the tasks are a Markov chain, of which labels only ever speak for each other.
    It does not depend on when a query later than all its neighbours comes.

    >>> c = decay_channel(torch.tensor([10.0]), torch.tensor([[10.0, 5.0]]), torch.ones(1, 2) > 0, memory=5.0, dim=1)
    >>> c[0, 0].item(), round(torch.exp(-(c[0, 1] ** 2)).item(), 3)
    (0.0, 0.286)
    """
    if not memory > 0:
        raise InputError(f"memory must be a time above 0, got {memory}")
    parts = zip(query.split(_ROWS), times.split(_ROWS), allowed.split(_ROWS), strict=True)
    found = [_channel(q.double(), t.double(), seen, memory, dim) for q, t, seen in parts if times.numel()]
    return torch.cat(found) if found else times.new_zeros(times.shape)


def query_times(count: int, known: Tensor, train: Index | None) -> Tensor:
    """Times (count,) of rows, ``known`` those of the training rows, which stand at ``train``; all others the latest.

    >>> import numpy as np
    >>> query_times(3, torch.tensor([5.0, 7.0], dtype=torch.float64), np.array([2, 0]))
    tensor([7., 7., 5.], dtype=torch.float64)
    """
    query = known.max().repeat(count)
    if train is not None:
        query[train] = known
    return query


def _channel(query: Tensor, times: Tensor, allowed: Tensor, memory: float, dim: int) -> Tensor:
    age = (query.unsqueeze(1) - times).abs().masked_fill(~allowed, torch.inf)
    nearest = age.amin(1, keepdim=True).nan_to_num(posinf=0.0)  # a factor of r, which cancels
    r = torch.exp(-(age - nearest) / memory)
    similar = torch.exp(-(times.unsqueeze(2) - times.unsqueeze(1)).abs() / memory)
    both = allowed.unsqueeze(2) & allowed.unsqueeze(1)
    m = torch.where(both, similar, 0.0) + (dim + 2.0) * torch.eye(times.shape[1], dtype=times.dtype)
    omega = torch.linalg.solve(m, r)
    top = omega.amax(1, keepdim=True).clamp_min(torch.finfo(omega.dtype).tiny)
    return torch.where(allowed, (omega / top).clamp(LEAST, 1.0).reciprocal().log(), 0.0).sqrt()
