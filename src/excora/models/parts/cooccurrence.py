"""Categorical tokens that start from what occurs together in the training rows.

    S = PPMI of the values of all categorical columns in a row, without themselves;   L L' = S + c I,   e = s L R

with R a random rotation and s such that tokens are as long as those of the usual start, and equal query and key
projections in the first attention between columns: its products of categories start as s^2 (S + c I), of rank dim. See
:mod:`excora.encodings.distributional`. DIFF: the paper has one-hot tokens; e goes on training.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from excora.encodings.columns import ColumnTokens
from excora.encodings.distributional import co_occurrence, positive_pmi, symmetric_embedding

#: What an option ``init`` may be.
STARTS = ("uniform", "cooccurrence")


@torch.no_grad()
def start_from_cooccurrence(tokens: ColumnTokens, codes: Tensor, query: Tensor, key: Tensor) -> None:
    """In place: the embeddings of ``tokens`` by the training rows' ``codes`` (n, categorical), ``key`` := ``query``.

    ``query`` and ``key`` (inner, dim): the projections of the first attention between columns. Values that never occur
    keep their start; without categorical columns nothing happens. Random numbers are torch's.

    >>> tokens = ColumnTokens(0, (3, 3), dim=4)
    >>> query, key = torch.randn(4, 4), torch.randn(4, 4)
    >>> start_from_cooccurrence(tokens, torch.tensor([[1, 1], [2, 2], [1, 1], [2, 2]]), query, key)
    >>> e = tokens.codes.weight
    >>> bool(e[1] @ e[4] > e[1] @ e[5]), torch.equal(query, key)
    (True, True)
    """
    if tokens.codes is None:
        return
    weight = tokens.codes.weight
    sizes = [*tokens.starts.diff().tolist(), len(weight) - int(tokens.starts[-1])]
    counts = co_occurrence(codes.numpy(), sizes)
    seen = np.diag(counts) > 0
    np.fill_diagonal(counts, 0.0)
    embedding, _ = symmetric_embedding(positive_pmi(counts)[np.ix_(seen, seen)], weight.shape[1])
    dim = weight.shape[1]
    rotation = torch.linalg.qr(torch.randn(dim, dim)).Q[: embedding.shape[1]]
    found = torch.from_numpy(embedding.copy()).to(weight.dtype) @ rotation
    length = found.square().sum(1).mean().sqrt()
    if length > 0:
        weight[torch.from_numpy(seen)] = found * (3.0**-0.5 / length)  # of dim numbers uniform in +-1/sqrt(dim)
        key.copy_(query)
