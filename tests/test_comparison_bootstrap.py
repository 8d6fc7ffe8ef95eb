"""The paired bootstrap: against slow versions of each step, and by what it concludes about models that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import bootstrap as oracle

from excora.comparison import bootstrap
from excora.comparison.bootstrap import draw, errors, pairwise, sample_units, simultaneous


def small(seed: int = 0, *, targets: int = 1, groups: int | None = None):
    """Two seeds, three models, 24 samples, 3 folds."""
    generator = np.random.default_rng(seed)
    target = generator.normal(size=(24, targets)) + 5.0
    prediction = target + generator.normal(size=(2, 3, 24, targets))
    unit = np.arange(24) if groups is None else np.arange(24) % groups
    fold = np.stack([generator.permutation(unit.max() + 1)[unit] % 3 for _ in range(2)])
    return prediction, target, unit, fold


@pytest.mark.parametrize("groups", [None, 8])
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("name", ["pcc", "mse"])
def test_resamples_equal_those_of_repeated_rows(name, targets, groups):
    prediction, target, unit, fold = small(targets=targets, groups=groups)
    draws = draw(prediction, target, unit, fold, resamples=7, seed=3)[name]
    units = unit.max() + 1
    counts = np.random.default_rng(3).multinomial(units, np.full(units, 1 / units), 7)
    expected = [oracle.resampled(prediction, target, unit, row, name) for row in counts]
    np.testing.assert_allclose(draws.resampled, expected, rtol=1e-10)
    whole = oracle.resampled(prediction, target, unit, np.ones(units, int), name)
    np.testing.assert_allclose(draws.score.mean(0), whole, rtol=1e-12)


def test_contributions_are_the_influence_of_each_sample():
    prediction, target, _, _ = small()
    x, y = prediction[0, 0, :, 0], target[:, 0]
    rho = oracle.pcc(x, y)
    found = bootstrap._influence(x, y, rho)
    np.testing.assert_allclose(found - rho, oracle.influence(x, y), atol=1e-8)
    assert found.mean() == pytest.approx(rho, abs=1e-12)


@pytest.mark.parametrize("groups", [None, 8])
def test_cells_equal_those_found_one_by_one(groups):
    prediction, target, unit, fold = small(groups=groups)
    draws = draw(prediction, target, unit, fold, resamples=2)["mse"]
    squares = (prediction[..., 0] - target[:, 0]) ** 2
    expected = [squares[s, :, fold[s] == f].mean(0) for s in range(2) for f in range(3)]
    np.testing.assert_allclose(draws.cell, expected, rtol=1e-12)
    np.testing.assert_allclose(draws.share @ draws.cell, draws.score.mean(0), rtol=1e-12)
    for model in range(3):
        spread = draws.spread[..., model]
        np.testing.assert_allclose(spread.T @ spread, oracle.cell_covariance(squares[:, model], unit, fold), rtol=1e-9)


def test_the_variance_of_training_solves_its_equation():
    generator = np.random.default_rng(0)
    means, parts = 0.3 * generator.normal(size=6), generator.normal(size=(20, 6)) * 0.05
    contrast = np.linalg.svd(np.ones((1, 6)))[2][1:]
    values, vectors = np.linalg.eigh(contrast @ parts.T @ parts @ contrast.T)
    chi = generator.chisquare(5, 50)
    found = bootstrap._solve((vectors.T @ contrast @ means) ** 2, values, chi)
    expected = [oracle.excess_variance(means, parts.T @ parts, value) for value in chi]
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=1e-9)
    assert min(expected) == 0.0
    assert max(expected) > 0.0


def test_swapping_the_models_mirrors_the_interval():
    draws = draw(*small(), resamples=200)["pcc"]
    one, other = (pairwise(*errors(draws, [pair]))[0] for pair in ((0, 1), (1, 0)))
    assert (one.difference, one.low, one.high) == pytest.approx((-other.difference, -other.high, -other.low))


def test_a_model_does_not_differ_from_itself():
    prediction, target, unit, fold = small()
    prediction[:, 1] = prediction[:, 0]
    for draws in draw(prediction, target, unit, fold, resamples=50).values():
        for bounds in (pairwise, simultaneous):
            found = bounds(*errors(draws, [(0, 1)]))[0]
            assert (tuple(found), found.side) == ((0.0, 0.0, 0.0), 0)


def test_a_collapsed_model_counts_as_a_correlation_of_0():
    prediction, target, unit, fold = small()
    prediction[:, 2] = 0.1
    draws = draw(prediction, target, unit, fold, resamples=50)["pcc"]
    assert (draws.score[:, 2] == 0).all()
    assert (draws.resampled[:, 2] == 0).all()
    assert (draws.cell[:, 2] == 0).all()
    assert np.isfinite(errors(draws, [(0, 2)])[1]).all()


def test_simultaneous_intervals_contain_the_pairwise_ones():
    draws = draw(*small(), resamples=500)["pcc"]
    found = errors(draws, [(0, 1), (0, 2), (1, 2)])
    for one, all_of in zip(pairwise(*found), simultaneous(*found), strict=True):
        assert all_of.low < one.low < one.difference < one.high < all_of.high


@given(st.integers(2, 60), st.integers(0, 5), st.sampled_from(["samples", "groups", "time"]))
def test_units_are_numbered_without_gaps_and_keep_what_belongs_together(n, seed, kind):
    labels = np.random.default_rng(seed).integers(0, 4, n)
    if kind == "groups":
        unit = sample_units(n, group=labels)
        assert all(len(set(unit[labels == label])) == 1 for label in set(labels))
    elif kind == "time":
        unit = sample_units(n, time=labels.astype(float))
        assert (np.diff(unit[np.argsort(labels, kind="stable")]) >= 0).all()
    else:
        unit = sample_units(n)
        assert len(set(unit)) == n
    assert set(unit) == set(range(unit.max() + 1))


def test_many_samples_are_resampled_in_blocks():
    sizes = np.bincount(sample_units(4500))
    assert (len(sizes), sizes.min(), sizes.max()) == (2000, 2, 3)


def test_units_of_several_sizes_are_worth_fewer():
    assert bootstrap.effective_units(np.array([0] * 9 + [1])) == pytest.approx(100 / 82)


def won(world: oracle.World, seed: int) -> bool:
    unit = sample_units(len(world.target), group=world.group, time=world.time)
    draws = draw(world.prediction, world.target, unit, world.fold, resamples=200, seed=seed)["pcc"]
    return pairwise(*errors(draws, [(1, 0)], seed=seed))[0].side != 0


def share(simulations: int, **changes) -> float:
    """How often the second of two models is said to differ from the first."""
    generator = np.random.default_rng(0)
    return np.mean([won(oracle.equal_models(generator, **changes), seed) for seed in range(simulations)])


@pytest.mark.parametrize(
    "changes",
    [{"n": 200, "luck": 0.05}, {"n": 60, "seeds": 1, "luck": 0.1}, {"n": 60, "groups": 12}],
    ids=["3 seeds", "1 seed", "groups"],
)
def test_of_two_equal_models_one_rarely_wins(changes):
    assert share(200, **changes) <= 0.07


def test_a_real_difference_is_found():
    assert share(40, better=0.1) >= 0.9
    assert share(40, better=0.1, seeds=1) >= 0.5


def test_without_the_trainings_an_equal_model_would_win_too_often():
    """What the part of the trainings is for: the same samples and models, folds thrown together."""
    generator, wins = np.random.default_rng(0), 0
    for seed in range(60):
        world = oracle.equal_models(generator, n=200, luck=0.2)
        draws = draw(world.prediction, world.target, np.arange(200), world.fold, resamples=200, seed=seed)["pcc"]
        difference, error = errors(draws._replace(cell=np.zeros_like(draws.cell)), [(1, 0)], seed=seed)
        wins += pairwise(difference, error)[0].side != 0
    assert wins > 9  # 15 %
