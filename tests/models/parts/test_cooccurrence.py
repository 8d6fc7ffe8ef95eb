"""A start from what occurs together: products of tokens are those of the matrix, in both models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.data.table import TableFeatures, TableSpec
from excora.encodings.columns import ColumnTokens
from excora.encodings.distributional import co_occurrence, positive_pmi
from excora.models import Samples, models
from excora.models.parts.cooccurrence import start_from_cooccurrence

CODES = torch.tensor([[1, 1], [2, 3], [1, 1], [2, 2], [3, 3], [1, 2]])


def test_products_are_those_of_the_shifted_matrix_up_to_one_factor():
    tokens, query, key = ColumnTokens(0, (4, 4), dim=8), torch.randn(8, 8), torch.randn(8, 8)
    before = tokens.codes.weight.clone()
    start_from_cooccurrence(tokens, CODES, query, key)
    counts = co_occurrence(CODES.numpy(), [4, 4])
    seen = np.diag(counts) > 0
    np.fill_diagonal(counts, 0.0)
    s = positive_pmi(counts)[np.ix_(seen, seen)]
    e = tokens.codes.weight.detach().double().numpy()[seen]
    found = e @ e.T
    off = ~np.eye(len(s), dtype=bool)
    factor = found[off][s[off] > 0.1] / s[off][s[off] > 0.1]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-4)
    np.testing.assert_allclose(found[off][s[off] == 0], 0.0, atol=1e-6)
    assert (e**2).sum(1).mean() == pytest.approx(1 / 3, rel=1e-5)
    assert torch.equal(tokens.codes.weight[[0, 4]], before[[0, 4]]), "never seen"
    assert torch.equal(query, key)


def test_without_categories_nothing_happens():
    query, key = torch.randn(4, 4), torch.randn(4, 4)
    kept = key.clone()
    start_from_cooccurrence(ColumnTokens(2, (), dim=4), torch.zeros(5, 0, dtype=torch.long), query, key)
    assert torch.equal(key, kept)


@pytest.mark.parametrize(("name", "layers"), [("ft-transformer", 1), ("ft-transformer", 2), ("npt", 1), ("npt", 2)])
def test_the_models_start_from_it(name, layers):
    rows = TableFeatures(np.zeros((6, 0), np.float32), np.zeros((6, 0), bool), CODES.numpy())
    samples = Samples(rows, np.arange(6, dtype=np.float32)[:, None], np.arange(6))
    model, spec = models[name], TableSpec(targets=1, categories=(4, 4))
    networks = [
        model.build(spec, samples, model.Options(dim=8, heads=2, layers=layers, init=init), seed=0)[0]
        for init in ("uniform", "cooccurrence")
    ]
    plain, ours = (next(p for n, p in one.named_parameters() if n.endswith("codes.weight")) for one in networks)
    assert not torch.equal(plain, ours)
    assert ours[1] @ ours[5] > ours[1] @ ours[7]
