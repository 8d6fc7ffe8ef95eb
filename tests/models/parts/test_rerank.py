"""The re-ranker: its losses by hand, any order of candidates, masks, mAP against scikit-learn, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score

from excora.errors import InputError
from excora.models.parts.rerank import (
    RECONSTRUCTION,
    TEMPERATURE,
    Reranker,
    average_precision,
    cosine_affinity,
    kernel_affinity,
)


def features(n: int = 3, candidates: int = 7, dim: int = 6) -> torch.Tensor:
    return F.normalize(torch.randn(n, 1 + candidates, dim), dim=-1)


def test_candidates_may_come_in_any_order():
    model, affinity = Reranker(anchors=5, dim=8, heads=2).eval(), cosine_affinity(features(), 5)
    order = torch.randperm(7)
    mixed = torch.cat([affinity[:, :1], affinity[:, 1:][:, order]], 1)
    torch.testing.assert_close(model(mixed), model(affinity)[:, order], rtol=0, atol=1e-5)


def test_masked_candidates_do_not_count():
    model, affinity = Reranker(anchors=5, dim=8, heads=2).eval(), cosine_affinity(features(), 5)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[:, 5:] = False
    found = model(affinity, mask)
    torch.testing.assert_close(found[:, :5], model(affinity[:, :6]), rtol=0, atol=1e-5)
    assert (found[:, 5:] == -torch.inf).all()
    dirty = affinity.clone()
    dirty[:, 6:] = 9.0
    relevant = torch.rand(3, 7) < 0.5
    torch.testing.assert_close(model.loss(dirty, relevant, mask), model.loss(affinity, relevant, mask))


def test_the_loss_is_its_formula():
    model = Reranker(anchors=5, dim=8, heads=2).eval().requires_grad_(False)
    affinity, relevant = cosine_affinity(features(), 5), torch.rand(3, 7) < 0.5
    z = model.encode(affinity).double()
    contrast, apart = [], []
    for row in range(3):
        cos = [float(F.cosine_similarity(z[row, 0], z[row, i], dim=0)) / TEMPERATURE for i in range(8)]
        good = [0, *(i + 1 for i in range(7) if relevant[row, i])]
        contrast.append(-np.log(np.exp([cos[i] for i in good]).sum() / np.exp(cos).sum()))
        for i in range(8):
            a, b = affinity[row, i].double(), model.outer(z[row, i].float()).double()
            apart.append(float((a / a.norm() - b / b.norm()).square().sum().clamp(1e-4, 1e4).sqrt()))
    wanted = np.mean(contrast) + RECONSTRUCTION * np.mean(apart)
    assert float(model.loss(affinity, relevant)) == pytest.approx(wanted, rel=1e-4)


def test_average_precision_is_that_of_scikit_learn():
    score, relevant = torch.randn(6, 12), torch.rand(6, 12) < 0.4
    relevant[:, 0] = True
    wanted = [average_precision_score(r, s) for r, s in zip(relevant.numpy(), score.numpy(), strict=True)]
    np.testing.assert_allclose(average_precision(score, relevant), wanted, atol=1e-6)


def test_affinities_are_products_and_kernels():
    f = features()
    torch.testing.assert_close(cosine_affinity(f, 4)[1, 5, 2], f[1, 5] @ f[1, 2])
    torch.testing.assert_close(kernel_affinity(f, 4)[1, 5, 2], (-(f[1, 5] - f[1, 2]).square().sum()).exp())


def test_training_brings_the_relevant_first():
    torch.manual_seed(0)
    f = features(16, 12)
    relevant = (f[:, 1:, 0] > 0) == (f[:, :1, 0] > 0)
    affinity, model = cosine_affinity(f, 8), Reranker(anchors=8, dim=16, heads=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = average_precision(model(affinity).detach(), relevant).mean()
    for _ in range(60):
        optimizer.zero_grad()
        model.loss(affinity, relevant).backward()
        optimizer.step()
    assert average_precision(model.eval()(affinity).detach(), relevant).mean() > before + 0.1


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="heads divide dim"):
        Reranker(anchors=3, dim=6, heads=4)
    with pytest.raises(InputError, match="candidates, 3"):
        Reranker(anchors=3, dim=4)(torch.rand(2, 5, 4))
