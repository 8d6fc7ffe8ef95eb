"""A start from what occurs together: logits of categories are half the matrix, and both models have it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.data.table import TableFeatures, TableSpec
from excora.encodings.columns import ColumnTokens
from excora.encodings.distributional import co_occurrence, positive_pmi
from excora.models import Samples, models
from excora.models.parts.cooccurrence import STRENGTH, start_from_cooccurrence
from excora.models.parts.transformer import Attention

CODES = torch.tensor([[1, 1], [2, 3], [1, 1], [2, 2], [3, 3], [1, 2]])


def similarity() -> tuple[np.ndarray, np.ndarray]:
    counts = co_occurrence(CODES.numpy(), [4, 4])
    seen = np.diag(counts) > 0
    np.fill_diagonal(counts, 0.0)
    return positive_pmi(counts)[np.ix_(seen, seen)], seen


@pytest.mark.parametrize("heads", [1, 2])
def test_logits_of_categories_start_as_half_the_matrix(heads):
    torch.manual_seed(0)
    tokens, attention = ColumnTokens(0, (4, 4), dim=8), Attention(8, heads, 0.0, None)
    before, values = tokens.codes.weight.clone(), attention.inner.weight[16:].clone()
    start_from_cooccurrence(tokens, CODES, attention)
    s, seen = similarity()
    e = tokens.codes.weight.detach()[torch.from_numpy(seen)]
    q, k, _ = (e @ w.T for w in attention.inner.weight.detach().chunk(3))
    by_head = [(a @ b.T) / (8 / heads) ** 0.5 for a, b in zip(q.chunk(heads, 1), k.chunk(heads, 1), strict=True)]
    np.testing.assert_allclose(torch.stack(by_head).mean(0), STRENGTH * s, atol=1e-5)
    assert float(e.square().sum(1).mean()) == pytest.approx(1 / 3, rel=1e-5)
    assert torch.equal(tokens.codes.weight[[0, 4]], before[[0, 4]]), "never seen"
    assert torch.equal(attention.inner.weight[16:], values)


def test_without_categories_nothing_happens():
    attention = Attention(4, 2, 0.0, None)
    kept = attention.inner.weight.clone()
    start_from_cooccurrence(ColumnTokens(2, (), dim=4), torch.zeros(5, 0, dtype=torch.long), attention)
    assert torch.equal(attention.inner.weight, kept)


def test_values_that_never_meet_leave_the_start():
    tokens = ColumnTokens(0, (3,), dim=4)
    before = tokens.codes.weight.clone()
    start_from_cooccurrence(tokens, torch.tensor([[1], [2], [1]]), None)
    assert torch.equal(tokens.codes.weight, before)


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
    assert torch.isfinite(ours).all()
