"""All pairs at once: Fisher's scale, the steps against a slow version, and what is said of models that are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracles import bootstrap as oracle

from excora.stats.family import fisher_scale, judge, stepwise
from excora.stats.paired import Bounds, Predicted, draw, errors, pairwise

SIX = list(itertools.combinations(range(6), 2))


def draws_of(world: oracle.World, seed: int = 0, resamples: int = 200):
    seeds = zip(world.prediction, world.fold, strict=True)
    return draw([Predicted(one, world.target, np.arange(len(fold)), fold) for one, fold in seeds],
                resamples=resamples, seed=seed)  # fmt: skip


@pytest.fixture(scope="module")
def drawn():
    return draws_of(oracle.equal_models(np.random.default_rng(0), models=3, n=60, seeds=2, folds=3, better=0.2))


def test_fishers_scale_is_that_of_the_mean_score_with_its_derivative(drawn):
    found, rho = fisher_scale(drawn["pcc"]), drawn["pcc"].score.mean(0)
    np.testing.assert_allclose(np.tanh(found.score.mean(0)), rho, rtol=1e-12)
    np.testing.assert_allclose(np.tanh(found.resampled), drawn["pcc"].resampled, rtol=1e-9)
    step = 1e-6
    slope = (np.arctanh(rho + step) - np.arctanh(rho - step)) / (2 * step)
    np.testing.assert_allclose(found.cell, drawn["pcc"].cell * slope, rtol=1e-6)
    np.testing.assert_allclose(found.spread, drawn["pcc"].spread * slope, rtol=1e-6)


def test_the_steps_are_those_of_a_slow_version():
    generator = np.random.default_rng(1)
    error = generator.normal(size=(400, 6)) @ generator.normal(size=(6, 6))
    for scale in (0.5, 3.0, 10.0, 30.0):
        difference = generator.normal(size=6) * scale
        expected, left = [0.0] * 6, list(range(6))
        while left:
            widths = {p: np.subtract(*np.quantile(error[:, p], [0.975, 0.025])) / 2 for p in left}
            largest = [max(abs(row[p]) / widths[p] for p in left) for row in error]
            factor = max(np.quantile(largest, 0.95), 1.0)
            for p in left:
                expected[p] = factor * widths[p]
            rest = [p for p in left if abs(difference[p]) <= expected[p]]
            if rest == left:
                break
            left = rest
        np.testing.assert_allclose(stepwise(difference, error), expected, rtol=1e-12)


def test_a_pair_that_is_found_makes_the_others_narrower():
    error = np.random.default_rng(2).normal(size=(2000, 8))
    alone = stepwise(np.zeros(8), error)
    beside = stepwise(np.array([99.0] * 7 + [0.0]), error)
    assert (beside[:7] == alone[:7]).all()
    assert beside[7] < 0.8 * alone[7]
    low, high = np.quantile(error[:, 7], [0.025, 0.975])
    assert beside[7] >= (high - low) / 2


@pytest.mark.parametrize("name", ["pcc", "mse"])
def test_turning_a_pair_mirrors_it_and_the_difference_is_that_of_the_scores(drawn, name):
    draws = drawn[name]
    one, other = (judge(draws, [pair], correlation=name == "pcc")[0] for pair in ((0, 2), (2, 0)))
    assert tuple(one) == pytest.approx((-other.difference, -other.high, -other.low), rel=1e-9)
    assert one.difference == pytest.approx(float(draws.score.mean(0) @ [1, 0, -1]), rel=1e-12)
    assert one.low < one.difference < one.high


def test_a_model_does_not_differ_from_itself_and_none_from_nothing(drawn):
    draws = drawn["pcc"]
    same = draws._replace(
        **{name: getattr(draws, name)[..., [0, 0]] for name in ("score", "resampled", "cell", "spread")}
    )
    assert judge(same, [(0, 1)], correlation=True) == [Bounds(0.0, 0.0, 0.0)]
    assert judge(draws, [], correlation=True) == []


def test_perfect_and_collapsed_models_have_intervals_too():
    y = np.random.default_rng(0).normal(size=(60, 1))
    given = [Predicted(np.stack([y, np.zeros_like(y), y + 1]), y, np.arange(60), np.arange(60) % 3)]
    found = judge(draw(given, resamples=100)["pcc"], [(0, 1), (0, 2), (1, 2)], correlation=True)
    assert np.isfinite(found).all()
    assert [bounds.side for bounds in found] == [1, 0, -1]
    assert all(-3 <= bounds.low <= bounds.high <= 3 for bounds in found)


def test_of_six_equal_models_one_rarely_wins_though_few_trainings_are_known():
    """Five trainings a model: a factor for all pairs from the luck of one pair gave 13 %."""
    generator, wins = np.random.default_rng(0), 0
    for seed in range(60):
        world = oracle.equal_models(generator, models=6, n=60, seeds=1, luck=0.2)
        wins += any(b.side for b in judge(draws_of(world, seed)["pcc"], SIX, correlation=True, seed=seed))
    assert wins <= 5


def far_apart(generator: np.random.Generator, n: int = 300) -> oracle.World:
    """Six models on a skewed target, errors that grow with it: 0.967 and 0.641, and four between; 5 folds, 1 seed."""
    y = np.exp(1.3 * generator.normal(size=n))
    y = (y - y.mean()) / y.std()
    rho = np.array([0.967, 0.641, 0.9, 0.85, 0.8, 0.75])[:, None]
    error = 0.6 * generator.normal(size=n) + 0.8 * generator.normal(size=(6, n))
    prediction = rho * y + np.sqrt(1 - rho**2) * error * (1 + np.abs(y)) / 2
    return oracle.World(prediction[None, ..., None], y[:, None], np.arange(n)[None] % 5)


def test_models_that_are_far_apart_are_told_apart_among_six():
    generator, here, before = np.random.default_rng(0), 0, 0
    for seed in range(12):
        draws = draws_of(far_apart(generator), seed)["pcc"]
        here += judge(draws, SIX, correlation=True, seed=seed)[0].side == 1
        difference, error = errors(draws, SIX, seed=seed)  # on the scale of the correlation, in one step
        low, high = np.quantile(error, [0.025, 0.975], axis=0)
        factor = np.quantile((np.abs(error) / ((high - low) / 2)).max(1), 0.95)
        before += bool(difference[0] + factor * low[0] > 0)
    assert here >= 10
    assert before <= 9


def test_two_models_are_judged_as_a_pair_alone(drawn):
    """With one pair there is nothing to allow for, up to the scale."""
    found, alone = judge(drawn["mse"], [(0, 2)], correlation=False)[0], pairwise(*errors(drawn["mse"], [(0, 2)]))[0]
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.15)
