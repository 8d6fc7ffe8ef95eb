"""Boosted trees: what they say of a row comes from trees that have not seen it, and left-out rows decide."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.models.parts import boosting
from excora.models.parts.boosting import RATE, ROUND, boost
from tests.oracles import trees as oracle

N = 300


@pytest.fixture
def steps() -> tuple[torch.Tensor, torch.Tensor]:
    """Four channels, the first of which is not read, and what two of the others make by a step each."""
    x = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
    return x, ((x[:, 1:2] > 0).float() - 0.5) * ((x[:, 2:3] > 0.5).float() + 0.2)


def grown(x, residuals, fold=None, known=None, weight=None, **more):
    fold = torch.arange(N) % 3 if fold is None else fold
    known = torch.ones_like(residuals[0], dtype=torch.bool) if known is None else known
    weight = torch.ones(N) if weight is None else weight
    return boost(x, 1, residuals, known, weight, fold, **{"seed": 0, "seconds": 1e6} | more)


def test_left_out_rows_are_missed_by_less_and_new_ones_are_told_the_mean(steps):
    x, y = steps
    found = grown(x, [y])
    assert found.residual.var() < 0.3 * y.var()
    assert found.trees.broken(4) == []
    assert (found.trees.feature >= 1).all()
    rounds, left = divmod(len(found.trees.root), 3 * ROUND)
    assert left == 0
    assert 1 <= rounds <= boosting.ROUNDS
    new = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    truth = ((new[:, 1] > 0).float() - 0.5) * ((new[:, 2] > 0.5).float() + 0.2)
    assert np.corrcoef(found.trees(new)[:, 0], truth)[0, 1] > 0.9


def test_labels_of_a_fold_do_not_move_what_it_is_told(steps, monkeypatch):
    monkeypatch.setattr(boosting, "ROUNDS", 1)
    monkeypatch.setattr(boosting, "SHAPES", ((5, 10),))
    x, y = steps
    held = torch.arange(N) % 3 == 1
    other = torch.where(held.unsqueeze(1), y + 0.1 * torch.randn(N, 1, generator=torch.Generator().manual_seed(2)), y)
    one, two = grown(x, [y]), grown(x, [other])
    torch.testing.assert_close((y - one.residual)[held], (other - two.residual)[held])
    assert not torch.allclose((y - one.residual)[~held], (other - two.residual)[~held])


def test_it_is_what_a_plain_loop_makes(steps, monkeypatch):
    """Each fold from obvious trees, a step after the other."""
    monkeypatch.setattr(boosting, "ROUNDS", 1)
    monkeypatch.setattr(boosting, "SHAPES", ((5, 10),))
    x, y = steps
    columns, label, fold = x[:, 1:].numpy(), y.double().numpy(), np.arange(N) % 3
    left_out, mean, weight = np.zeros((N, 1)), np.zeros((N, 1)), np.ones(N)
    for k in range(3):
        random, seen, said = np.random.default_rng([0, k]), np.flatnonzero(fold != k), np.zeros((N, 1))
        for _ in range(ROUND):
            some = seen[random.permutation(len(seen))[: len(seen) // 2]]
            given = {"leaf": 5, "depth": 10, "share": 1.0}
            *nodes, value = oracle.tree(columns[some], (label - said)[some], weight[some], random, **given)
            said += RATE * value[oracle.leaves(columns, *nodes)]
        left_out[fold == k], mean = said[fold == k], mean + said / 3
    found = grown(x, [y])
    np.testing.assert_allclose(found.residual, label - left_out, atol=1e-5)
    np.testing.assert_allclose(found.trees(x), mean, atol=1e-5)


def test_the_line_that_trees_mend_best_is_taken_and_threads_change_nothing(steps):
    x, y = steps
    worse = y + torch.randn(N, 1, generator=torch.Generator().manual_seed(3))
    assert grown(x, [worse, y]).parent == 1
    found = grown(x, [y, worse])
    assert found.parent == 0
    again = grown(x, [y, worse], threads=2)
    assert torch.equal(found.residual, again.residual)
    assert all(torch.equal(a, b) for a, b in zip(found.trees, again.trees, strict=True))


def test_unknown_labels_say_nothing_and_weights_count(steps):
    x, y = steps
    known = torch.ones(N, 2, dtype=torch.bool)
    known[:60, 1] = False
    both = torch.cat([y, -y], 1)
    wild = torch.where(known, both, torch.nan)
    found = grown(x, [wild], known=known)
    assert found.residual[:, 1].isnan().sum() == 60
    assert found.residual.nan_to_num().var() < 0.4 * both.var()
    light = torch.where(torch.arange(N) < 100, 1e-6, 1.0)
    spoilt = torch.where((torch.arange(N) < 100).unsqueeze(1), -5 * y, y)
    left = grown(x, [spoilt], weight=light).residual[100:]
    assert left.var() < 0.4 * y.var()


def test_there_are_none_where_they_do_not_help_or_nobody_is_left_out(steps):
    x, y = steps
    noise = torch.randn(N, 1, generator=torch.Generator().manual_seed(4))
    assert grown(x, [noise]) is None
    assert grown(x, [y], fold=torch.zeros(N).long()) is None
    assert boost(x[:50], 1, [y[:50]], y[:50] < 9, torch.ones(50), torch.arange(50) % 3, seed=0, seconds=1.0) is None
    assert len(grown(x, [y], seconds=0.0).trees.root) == 3 * ROUND, "one round, and no more"


@pytest.fixture
def many(steps, monkeypatch) -> tuple[torch.Tensor, torch.Tensor]:
    """The same rows, which count as many."""
    monkeypatch.setattr(boosting, "LARGE", 200)
    monkeypatch.setattr(boosting, "ROUNDS", 3)
    return steps


@pytest.mark.parametrize("folds", [2, 3])
def test_with_many_rows_two_folds_are_enough(many, folds):
    x, y = many
    assert grown(x, [y], fold=torch.arange(N) % folds).residual.var() < 0.4 * y.var()


def test_with_many_rows_the_line_is_chosen_first_and_the_shape_then(many):
    x, y = many
    worse = y + torch.randn(N, 1, generator=torch.Generator().manual_seed(3))
    for residuals, best in (([worse, y], 1), ([y, worse], 0)):
        found = grown(x, residuals)
        assert found.parent == best
        assert found.residual.var() < 0.3 * y.var()
        assert len(found.trees.root) % (3 * 2 * ROUND) == 0


@pytest.mark.parametrize(("lead", "depth"), [(0.0, 14), (1.0, 10)])
def test_deep_trees_have_to_be_ahead(many, monkeypatch, lead, depth):
    """A product of three columns, with as little noise as rows: there small leaves are best."""
    monkeypatch.setattr(boosting, "LEAD", lead)
    tried = []
    kept = boosting.Growing.__init__

    def recorded(self, rows, label, shape, seed):
        tried.append(shape)
        kept(self, rows, label, shape, seed)

    monkeypatch.setattr(boosting.Growing, "__init__", recorded)
    x, _ = many
    assert grown(x, [(x[:, 1:2] * x[:, 2:3] * x[:, 3:4]).sign()]) is not None
    assert set(tried[:-1]) == {(5, 10), (30, 10), (2, 14)}
    assert tried[-1][1] == depth


def test_the_mean_of_all_folds_is_told_from_that_of_two(many, monkeypatch):
    """Where trees say b + e of a row, with e their own, two leave b^2 + d / 2 and all of three b^2 + d / 3."""
    b, random = 0.5, torch.Generator().manual_seed(5)

    def said(self, number, rounds):
        e = {(5, 10): 0.1, (30, 10): 0.01, (2, 14): 1.0}[self.shape]
        held = self.rows.fold == number
        own = np.sqrt(e) * torch.randn(int(held.sum()), 1, generator=random).numpy()
        self.left_out[rounds - 1][held] = self.label[held] - b - own

    monkeypatch.setattr(boosting.Growing, "rounds", said)
    seen = []
    least = min
    monkeypatch.setattr(
        boosting, "min", lambda of, key: seen.append([key(k) for k in of]) or least(of, key=key), raising=False
    )
    x, y = many
    rows = boosting.Rows(x[:, 1:].numpy(), np.ones((N, 1), bool), np.ones(N), np.arange(N) % 3)
    with boosting.ThreadPoolExecutor(1) as pool:
        parent, found = boosting._shape_for_many(rows, [y.double().numpy()], np.ones((N, 1)), 0, pool)
    assert (parent, found.shape) == (0, (30, 10))
    line, shapes = seen
    held = 200
    np.testing.assert_allclose(line, [held * (b**2 + 0.1 / 3)], rtol=0.1)
    np.testing.assert_allclose(shapes, [held * (b**2 + e / 3) for e in (0.1, 0.01)], rtol=0.1)
