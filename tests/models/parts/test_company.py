"""Neighbours by their company: allowed ones only, labels nearer than by distance, and the model with rerank."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.rows import wavy

from excora.models import Samples, models
from excora.models.parts.company import Company
from excora.models.parts.neighbours import Excluded, nearest


@pytest.fixture(scope="module")
def arcs():
    """Rows on arcs, labels by arc: the far end of an arc is alike in label and not in place."""
    g = torch.Generator().manual_seed(0)
    which = torch.arange(400) % 8
    angle = 2.5 * torch.rand(400, 1, generator=g)
    basis = torch.linalg.qr(torch.randn(8, 6, 2, generator=g)).Q
    x = (torch.cat([angle.cos(), angle.sin()], 1).unsqueeze(1) @ basis[which].mT).squeeze(1)
    return x + 0.15 * torch.randn(400, 6, generator=g), which.float().unsqueeze(1)


def test_neighbours_of_new_rows_have_nearer_labels(arcs):
    x, y = arcs
    company = Company(12)
    company.fit(x[:300], y[:300], Excluded(x[:300]), seed=0, steps=80)
    miss = []
    for search in (nearest, company):
        found, allowed = search(x[300:], x[:300], 12)
        assert allowed.all()
        miss.append(float((y[:300][found][..., 0] != y[300:]).float().mean()))
    assert miss[1] < miss[0]
    assert not any(p.requires_grad for p in company.parameters())


def test_whom_a_row_may_not_see_it_does_not_see(arcs):
    x, _ = arcs
    x = x[:40]
    group = np.arange(40) // 30
    excluded = Excluded(x, group=group)
    numbers = torch.arange(40)
    found, allowed = Company(12)(x, x, 12, excluded=excluded, numbers=numbers)
    assert not (excluded(numbers[:, None], found) & allowed).any()
    assert (allowed.sum(1) == torch.where(torch.from_numpy(group) == 0, 10, 12)).all()


def test_the_model_takes_it_and_looks_up_the_same_again():
    spec, features, target = wavy()
    model = models["retrieval"]
    options = model.Options(rerank=True, neighbours=6, dim=8, metric="plain")
    network, found = model.build(spec, Samples(features, target, np.arange(200)), options, seed=0)
    again = network.look_up(features)
    assert torch.equal(again.neighbours[200:], found.neighbours[200:])
    plain, other = model.build(
        spec, Samples(features, target, np.arange(200)), model.Options(neighbours=6, dim=8, metric="plain"), seed=0
    )
    assert not torch.equal(other.neighbours, found.neighbours)
    assert "company.reranker.inner.weight" in network.state_dict()
    assert network.options["rerank"]
    assert not plain.options["rerank"]
