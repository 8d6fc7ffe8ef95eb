"""Categorical tokens that start from what occurs together in the training rows.

    S = PPMI of the values of all categorical columns in a row, without themselves;   L diag(g) L' = S,   e = s L R

with R a random rotation and s such that tokens are as long as those of the usual start. Where tokens meet attention as
they are, query and key projections start as a M and a M R' diag(g) R, M a random rotation and a such that the logits of
categories are :data:`STRENGTH` S, of rank dim, in the mean over the heads: weights in proportion to a root of how much
more often two values meet than by chance. See :mod:`excora.encodings.distributional`. DIFF: the paper has one-hot
tokens; e goes on training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from excora.encodings.columns import ColumnTokens
from excora.encodings.distributional import co_occurrence, positive_pmi, signed_embedding

#: What an option ``init`` may be.
STARTS = ("uniform", "cooccurrence")
#: Of the logits; 1/2 and 1 were tried, see the study ``cooccurrence``.
STRENGTH = 0.5


@torch.no_grad()
def start_from_cooccurrence(tokens: ColumnTokens, codes: Tensor, attention: Any = None) -> None:
    """In place: the embeddings of ``tokens`` by the training rows' ``codes`` (n, categorical), and an ``attention``.

    ``attention`` (:class:`excora.models.parts.transformer.Attention`): the one that reads the tokens as they are; None
    where something mixes them before. Values that never occur keep their start; without categorical columns nothing
    happens. Random numbers are torch's.

    >>> tokens = ColumnTokens(0, (3, 3), dim=4)
    >>> start_from_cooccurrence(tokens, torch.tensor([[1, 1], [2, 2], [1, 1], [2, 2]]))
    >>> tokens.codes.weight[[1, 2, 4, 5]].square().sum(1).mean().detach()
    tensor(0.3333)
    """
    if tokens.codes is None:
        return
    weight = tokens.codes.weight
    dim, sizes = weight.shape[1], [*tokens.starts.diff().tolist(), len(weight) - int(tokens.starts[-1])]
    counts = co_occurrence(codes.numpy(), sizes)
    seen = np.diag(counts) > 0
    np.fill_diagonal(counts, 0.0)
    embedding, signs = signed_embedding(positive_pmi(counts)[np.ix_(seen, seen)], dim)
    length = float(np.sqrt(np.square(embedding).sum(1).mean()))
    if not length > 1e-6:
        return
    rotation, scale = torch.linalg.qr(torch.randn(dim, dim)).Q, 3.0**-0.5 / length  # of dim numbers in +-1/sqrt(dim)
    found = torch.from_numpy(embedding * scale).to(weight.dtype)
    weight[torch.from_numpy(seen)] = found @ rotation[: found.shape[1]]
    if attention is not None:
        turned = torch.ones(dim)
        turned[: len(signs)] = torch.from_numpy(signs).float()
        strength = STRENGTH * attention.heads * (dim / attention.heads) ** 0.5
        query, key, _ = attention.inner.weight.chunk(3)
        query.copy_(torch.linalg.qr(torch.randn(dim, dim)).Q * (strength**0.5 / scale))
        key.copy_(query @ (rotation.T * turned) @ rotation)
