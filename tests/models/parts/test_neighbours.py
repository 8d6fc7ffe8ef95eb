"""The search against brute force, who may not be seen, and the learned metric."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.retrieval import nearest as brute_force

from excora.errors import InputError, MissingExtraError
from excora.models.parts import neighbours
from excora.models.parts.neighbours import Excluded, Metric, learn_metric, nearest


def lists(found: tuple[torch.Tensor, torch.Tensor]) -> list[list[int]]:
    """The allowed numbers of each row; what is not allowed comes last and is number 0."""
    places, allowed = found
    assert (places[~allowed] == 0).all()
    assert (allowed.int().diff(dim=1) <= 0).all()
    return [row[ok].tolist() for row, ok in zip(places, allowed, strict=True)]


@given(seed=st.integers(0, 10_000), n=st.integers(0, 12), half=st.integers(0, 15), k=st.integers(1, 40))
def test_nearest_is_brute_force_with_ties_and_more_wanted_than_there_are(seed, n, half, k):
    generator = np.random.default_rng(seed)
    query, part = (generator.integers(-2, 3, (m, 2)).astype(np.float32) for m in (n, half))
    candidate = np.concatenate([part, -part])  # whole numbers around 0: every distance is exact, many are equal
    found = nearest(torch.from_numpy(query), torch.from_numpy(candidate), k)
    assert found[0].shape == found[1].shape == (n, k)
    assert lists(found) == brute_force(query, candidate, k)


@pytest.mark.parametrize("tile", [1, 50, 1 << 22])
def test_exclusions_hold_whatever_the_tile(monkeypatch, tile):
    monkeypatch.setattr(neighbours, "TILE", tile)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 3)).astype(np.float32)
    x[5:9] = x[4]
    group, time = generator.integers(0, 8, 40).astype(str), generator.uniform(0, 10, 40)

    def barred(q: int, i: int) -> bool:
        return bool((x[q] == x[i]).all() or group[q] == group[i] or abs(time[q] - time[i]) <= 1.5)

    rows = torch.from_numpy(x)
    excluded = Excluded(rows, group=group, time=time, gap=1.5)
    found = nearest(rows, rows, 30, excluded=excluded, numbers=torch.arange(40))
    assert lists(found) == brute_force(x.astype(float), x.astype(float), 30, barred)
    assert not found[1].all()  # some rows have fewer than 30 to choose from
    part = torch.tensor([7, 3])
    some = nearest(rows[part], rows, 30, excluded=excluded, numbers=part)
    assert torch.equal(some[0], found[0][part])


def test_duplicates_and_times_exclude_each_other_and_nothing_else_does():
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.5], [0.0, 0.0]])
    everyone = torch.arange(4)
    assert Excluded(x)(everyone[:, None], everyone).nonzero().tolist() == [
        [0, 0],
        [0, 1],
        [1, 0],
        [1, 1],
        [2, 2],
        [3, 3],
    ]
    timed = Excluded(x, time=np.array([0.0, 3.0, 3.0, 9.0]))(everyone[:, None], everyone)
    assert bool(timed[1, 2])
    assert not timed[3, :3].any()


def test_a_row_that_may_see_nobody_has_no_allowed_neighbour():
    x = torch.randn(5, 2)
    found, allowed = nearest(x, x, 3, excluded=Excluded(x, group=np.zeros(5)), numbers=torch.arange(5))
    assert not allowed.any()
    assert not found.any()


def test_far_from_zero_the_digits_are_kept():
    near = torch.tensor([[0.0], [1e-3], [2.1e-3], [-3e-3]], dtype=torch.float64)
    assert nearest(near[:1] + 1e6, near + 1e6, 4)[0].tolist() == [[0, 1, 2, 3]]


def test_no_tensor_of_the_search_is_larger_than_a_tile(monkeypatch):
    """What topk is given, and what exclusion answers, is a tile: the only tensors of queries x candidates."""
    seen = []
    smallest = neighbours._smallest
    monkeypatch.setattr(neighbours, "TILE", 5000)
    monkeypatch.setattr(neighbours, "_smallest", lambda d, k: (seen.append(d.numel()), smallest(d, k))[1])
    x = torch.randn(700, 4)
    nearest(x, x, 5, excluded=Excluded(x), numbers=torch.arange(700))
    assert max(seen) <= 5000
    assert sum(seen) == 700 * 700


def test_faiss_finds_nearly_the_same_and_keeps_the_exclusions(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 4, generator=generator)
    group = np.arange(2000) // 30
    excluded, numbers = Excluded(x, group=group), torch.arange(2000)
    exact = nearest(x, x, 8, excluded=excluded, numbers=numbers)
    monkeypatch.setattr(neighbours, "EXACT", 1000)
    state = torch.get_rng_state()
    found = nearest(x, x, 8, excluded=excluded, numbers=numbers)
    assert torch.equal(torch.get_rng_state(), state)
    assert found[1].all()
    assert not excluded(numbers[:, None], found[0]).any()
    shared = np.mean([len({*a} & {*b}) / 8 for a, b in zip(lists(found), lists(exact), strict=True)])
    assert shared > 0.8
    barred = nearest(x, x, 8, excluded=Excluded(x, group=np.arange(2000) < 1999), numbers=numbers)
    assert barred[1].sum(1)[:1999].max() <= 1  # one row alone is of another group
    lists(barred)


def test_without_faiss_many_candidates_name_the_extra(monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT", 10)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"excora\[index\]"):
        nearest(torch.randn(2, 3), torch.randn(11, 3), 4)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_the_metric_finds_the_informative_column(kind):
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(1))
    y = (3 * x[:, 2:3]).sin()
    state = torch.get_rng_state()
    metric = learn_metric(x, y, Excluded(x), kind=kind, steps=80, queries=128)
    assert torch.equal(torch.get_rng_state(), state)
    step = metric(torch.eye(6)).norm(dim=1)  # how far a unit step in a column is in the space of the search
    assert int(step.argmax()) == 2
    assert float(step[2]) > 3 * float(step.sort().values[-2])
    again = learn_metric(x, y, Excluded(x), kind=kind, steps=80, queries=128)
    assert torch.equal(metric.weight, again.weight)
    assert (metric.mix is None) == (kind == "diagonal")


def test_a_plain_metric_is_one_factor_that_brings_neighbours_to_distance_two():
    x = 50 * torch.randn(300, 3)
    metric = learn_metric(x, x[:, :1], Excluded(x), kind="plain")
    assert metric.mix is None
    assert metric.weight.unique().numel() == 1
    m = metric(x)
    found, _ = nearest(m, m, 24, excluded=Excluded(x), numbers=torch.arange(300))
    assert float((m[:, None] - m[found]).square().sum(-1).median()) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("kind", ["full", "plain"])
def test_a_metric_of_rows_that_see_nobody_is_finite(kind):
    x = torch.ones(4, 2)
    metric = learn_metric(x, torch.randn(4, 1), Excluded(x), kind=kind, steps=3)
    assert metric(x).isfinite().all()


def test_a_metric_applies_weights_and_then_mixes():
    weight, mix, x = torch.randn(3), torch.randn(3, 3), torch.randn(5, 3)
    torch.testing.assert_close(Metric(weight, mix)(x), x @ (torch.diag(weight) @ (torch.eye(3) + mix)))
    v = torch.randn(3, 2)
    for metric in (Metric(weight, mix), Metric(weight, None)):
        torch.testing.assert_close(x @ metric.before(v), metric(x) @ v)


def test_what_breaks_a_rule_is_named():
    x = torch.randn(4, 2)
    with pytest.raises(InputError, match="k, the number of neighbours"):
        nearest(x, x, 0)
    with pytest.raises(InputError, match="go together"):
        nearest(x, x, 1, excluded=Excluded(x))
    with pytest.raises(InputError, match="gap must be"):
        Excluded(x, gap=float("nan"))
    with pytest.raises(InputError, match=r"group must be given for each of the 4 rows, got shape \(3,\)"):
        Excluded(x, group=np.zeros(3))
