"""Attention as a distributional projection: query-key products that start from what occurs together.

With one-hot tokens Q (n, V) and a co-occurrence matrix S (V, V), Q S Q' holds the co-occurrence of each pair of tokens
of a sequence. A symmetric S + cI = L L' gives embeddings H = Q L with H H' = Q (S + cI) Q'; a directional S = U Sig V'
gives W_q = U Sig^(1/2) and W_k = V Sig^(1/2) with (Q W_q)(Q W_k)' = Q S Q'. Mehta (arXiv 2511.13780): identities, which
test the code and not the paper's thesis. Useful as a start for the categorical tokens of a table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from excora.errors import InputError

Array = NDArray[np.float64]


def co_occurrence(codes: ArrayLike, sizes: ArrayLike) -> Array:
    """Counts (V, V) of the values of categorical columns in the same row; V = sum of ``sizes``, the columns' values.

    ``codes`` (rows, columns), from 0; a value of -1 is missing. The diagonal holds how often a value occurs.

    >>> co_occurrence([[0, 1], [1, 1]], [2, 2]).tolist()
    [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 2.0]]
    """
    codes, sizes = np.asarray(codes, int), np.asarray(sizes, int)
    if codes.ndim != 2 or sizes.shape != (codes.shape[1],) or (codes >= sizes).any() or (codes < -1).any():
        raise InputError("codes must be of shape (rows, columns), each below the number of values of its column, or -1")
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    one_hot = np.zeros((len(codes), int(sizes.sum())))
    rows, columns = np.nonzero(codes >= 0)
    one_hot[rows, (start + codes)[rows, columns]] = 1.0
    return one_hot.T @ one_hot


def positive_pmi(counts: ArrayLike) -> Array:
    """PPMI: max(0, log(n_ij N / (n_i n_j))) of counts (V, V), 0 where nothing occurs together.

    >>> positive_pmi([[0.0, 2.0], [2.0, 0.0]]).round(4).tolist()
    [[0.0, 0.6931], [0.6931, 0.0]]
    """
    n = np.asarray(counts, float)
    if n.ndim != 2 or not np.isfinite(n).all() or (n < 0).any():
        raise InputError("counts must be a matrix of finite numbers that are not negative")
    expected = n.sum(1, keepdims=True) * n.sum(0, keepdims=True)
    ratio = np.divide(n * n.sum(), expected, out=np.zeros_like(n), where=expected > 0)
    return np.log(np.maximum(ratio, 1.0))


def symmetric_embedding(similarity: ArrayLike, dim: int | None = None) -> tuple[Array, float]:
    """L (V, dim) and c with L L' = S + c I, c the least shift without negative eigenvalues; dim: the largest ones.

    >>> embedding, shift = symmetric_embedding([[0.0, 1.0], [1.0, 0.0]])
    >>> (embedding @ embedding.T).round(6).tolist(), round(shift, 6)
    ([[1.0, 1.0], [1.0, 1.0]], 1.0)
    """
    s = np.asarray(similarity, float)
    if s.ndim != 2 or s.shape[0] != s.shape[1] or not np.allclose(s, s.T, atol=1e-9):
        raise InputError(f"a similarity must be square and symmetric, got shape {s.shape}")
    values, vectors = np.linalg.eigh(s)
    shift = max(0.0, -float(values[0]))
    roots = vectors * np.sqrt(np.maximum(values + shift, 0.0))
    return roots[:, ::-1][:, :dim], shift


def signed_embedding(similarity: ArrayLike, dim: int | None = None) -> tuple[Array, Array]:
    """L (V, dim) and signs (dim,) with L diag(signs) L' = S, or its best approximation of that rank.

    The singular vectors of a symmetric matrix, where one embedding serves queries and keys: W_q = L, and W_k = L times
    the signs. Nothing is added to the diagonal.

    >>> embedding, signs = signed_embedding([[0.0, 1.0], [1.0, 0.0]])
    >>> (embedding * signs @ embedding.T).round(6).tolist(), sorted(signs.tolist())
    ([[0.0, 1.0], [1.0, 0.0]], [-1.0, 1.0])
    """
    s = np.asarray(similarity, float)
    if s.ndim != 2 or s.shape[0] != s.shape[1] or not np.allclose(s, s.T, atol=1e-9):
        raise InputError(f"a similarity must be square and symmetric, got shape {s.shape}")
    values, vectors = np.linalg.eigh(s)
    first = np.argsort(-np.abs(values), kind="stable")[:dim]
    return vectors[:, first] * np.sqrt(np.abs(values[first])), np.where(values[first] < 0, -1.0, 1.0)


def directional_projection(similarity: ArrayLike, dim: int | None = None) -> tuple[Array, Array]:
    """(W_q, W_k), each (V, dim), with W_q W_k' = S, or its best approximation of that rank.

    >>> q, k = directional_projection([[0.0, 2.0], [0.0, 0.0]])
    >>> bool(np.allclose(q @ k.T, [[0.0, 2.0], [0.0, 0.0]]))
    True
    """
    s = np.asarray(similarity, float)
    if s.ndim != 2 or not np.isfinite(s).all():
        raise InputError(f"a similarity must be a finite matrix, got shape {s.shape}")
    u, values, v = np.linalg.svd(s, full_matrices=False)
    root = np.sqrt(values)
    return (u * root)[:, :dim], (v.T * root)[:, :dim]
