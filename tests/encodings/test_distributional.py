"""The four identities, and co-occurrence by counting."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.encodings.distributional import (
    co_occurrence,
    directional_projection,
    positive_pmi,
    signed_embedding,
    symmetric_embedding,
)
from excora.errors import InputError

RNG = np.random.default_rng(0)
SIZES = [3, 4]
CODES = np.column_stack([RNG.integers(-1, 3, 40), RNG.integers(0, 4, 40)])
S = RNG.normal(size=(7, 7))
TOKENS = RNG.integers(7, size=5)
Q = np.eye(7)[TOKENS]


def test_the_product_of_selectors_is_a_gather():
    np.testing.assert_allclose(Q @ S @ Q.T, S[np.ix_(TOKENS, TOKENS)], atol=1e-12)


def test_symmetric_embeddings_have_the_similarity():
    both = S + S.T
    embedding, shift = symmetric_embedding(both)
    h = Q @ embedding
    np.testing.assert_allclose(h @ h.T, Q @ (both + shift * np.eye(7)) @ Q.T, atol=1e-12)


def test_attention_on_them_is_torch_s():
    h = Q @ symmetric_embedding(S + S.T)[0]
    scores = h @ h.T / np.sqrt(7)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ h
    x = torch.from_numpy(h)[None]
    found = torch.nn.functional.scaled_dot_product_attention(x, x, x)[0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_directional_projections_have_the_similarity():
    q, k = directional_projection(S)
    np.testing.assert_allclose((Q @ q) @ (Q @ k).T, Q @ S @ Q.T, atol=1e-12)
    q, k = directional_projection(S, dim=2)
    values = np.linalg.svd(S, compute_uv=False)
    assert np.linalg.norm(S - q @ k.T) == pytest.approx(np.linalg.norm(values[2:]))


def test_signed_embeddings_have_the_similarity_and_nothing_on_the_diagonal():
    both = S + S.T
    embedding, signs = signed_embedding(both)
    h = Q @ embedding
    np.testing.assert_allclose((h * signs) @ h.T, Q @ both @ Q.T, atol=1e-12)
    embedding, signs = signed_embedding(both, dim=3)
    values = np.sort(np.abs(np.linalg.eigvalsh(both)))
    assert np.linalg.norm(both - (embedding * signs) @ embedding.T) == pytest.approx(np.linalg.norm(values[:4]))


def test_co_occurrence_counts_rows():
    counts = co_occurrence(CODES, SIZES)
    for i in range(3):
        for j in range(4):
            assert counts[i, 3 + j] == ((CODES[:, 0] == i) & (CODES[:, 1] == j)).sum()
    np.testing.assert_array_equal(counts, counts.T)
    assert counts[0, 0] == (CODES[:, 0] == 0).sum()
    assert counts[0, 1] == 0  # a row has one value of a column


def test_positive_pmi_is_zero_for_independent_values():
    assert positive_pmi(np.outer([1, 2, 3], [4, 1, 2])).max() == pytest.approx(0.0, abs=1e-12)
    assert (positive_pmi(np.zeros((2, 2))) == 0).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: co_occurrence([[5]], [3]),
        lambda: positive_pmi([[-1.0]]),
        lambda: symmetric_embedding(S),
        lambda: directional_projection(np.full((2, 2), np.nan)),
    ],
)
def test_bad_input_is_named(call):
    with pytest.raises(InputError):
        call()
