"""The paired bootstrap: against slow versions of each step, and by what it concludes about models that are known."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import bootstrap as oracle

from excora.stats import paired
from excora.stats.paired import Predicted, design_effect, draw, errors, pairwise
from excora.stats.units import sample_units


def by_seed(prediction, target, unit, fold) -> list[Predicted]:
    """Of predictions (seeds, models, n, targets) and folds (seeds, n)."""
    return [Predicted(one, target, unit, part) for one, part in zip(prediction, fold, strict=True)]


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
    draws = draw(by_seed(prediction, target, unit, fold), resamples=7, seed=3)[name]
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
    found = paired._influence(x, y, rho)
    np.testing.assert_allclose(found - rho, oracle.influence(x, y), atol=1e-8)
    assert found.mean() == pytest.approx(rho, abs=1e-12)


@pytest.mark.parametrize("groups", [None, 8])
def test_cells_equal_those_found_one_by_one(groups):
    prediction, target, unit, fold = small(groups=groups)
    draws = draw(by_seed(prediction, target, unit, fold), resamples=2)["mse"]
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
    found = paired._solve((vectors.T @ contrast @ means) ** 2, values, chi)
    expected = [oracle.excess_variance(means, parts.T @ parts, value) for value in chi]
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=1e-9)
    assert min(expected) == 0.0
    assert max(expected) > 0.0


@pytest.mark.parametrize("degrees", [2, 9])
def test_every_pair_has_a_chi_square_of_its_own_as_normal_values_of_each_model_give_it(degrees):
    found = paired._chi_squares(np.random.default_rng(0), 40_000, float(degrees), 4)
    x = np.random.default_rng(1).normal(size=(40_000, degrees + 1, 4))
    x -= x.mean(1, keepdims=True)
    expected = ((x[..., :, None] - x[..., None, :]) ** 2).sum(1) / 2
    pairs = [(0, 1), (0, 2), (2, 3), (1, 3)]  # some have a model in common, some have none
    for draws in (found, expected):
        one = np.stack([draws[:, a, b] for a, b in pairs])
        np.testing.assert_allclose(one.mean(1), degrees, rtol=0.02)
        np.testing.assert_allclose(one.var(1), 2 * degrees, rtol=0.06)
        np.testing.assert_allclose(np.corrcoef(one)[0], [1, 0.25, 0, 0.25], atol=0.025)
    np.testing.assert_allclose(found, found.transpose(0, 2, 1))


def test_the_worst_of_many_pairs_is_known_less_well_than_one():
    generator = np.random.default_rng(0)
    target, unit = generator.normal(size=(48, 1)), np.arange(48) // 6  # 8 units
    prediction = target + generator.normal(size=(1, 5, 48, 1))
    draws = draw(by_seed(prediction, target, unit, np.zeros((1, 48), int)), resamples=4000)["mse"]
    pairs = [(a, b) for a in range(5) for b in range(a)]
    error = errors(draws, pairs)[1]
    apart = draws.resampled - draws.score[0]
    plain = np.stack([apart[:, a] - apart[:, b] for a, b in pairs], 1)
    moved = (np.abs(plain) > 1e-9).all(1)  # a resample may be the sample itself
    stretch = (error[moved] / plain[moved]) ** 2
    assert (np.ptp(stretch, 1) > 0.01).all()  # no two pairs have the same
    assert np.quantile(stretch, 0.5, 0) == pytest.approx(8 / 6.35, rel=0.1)  # the median of chi^2 of 7


def test_swapping_the_models_mirrors_the_interval():
    draws = draw(by_seed(*small()), resamples=200)["pcc"]
    one, other = (pairwise(*errors(draws, [pair]))[0] for pair in ((0, 1), (1, 0)))
    assert (one.difference, one.low, one.high) == pytest.approx((-other.difference, -other.high, -other.low))


def test_a_model_does_not_differ_from_itself():
    prediction, target, unit, fold = small()
    prediction[:, 1] = prediction[:, 0]
    for draws in draw(by_seed(prediction, target, unit, fold), resamples=50).values():
        found = pairwise(*errors(draws, [(0, 1)]))[0]
        assert (tuple(found), found.side) == ((0.0, 0.0, 0.0), 0)


def test_a_collapsed_model_counts_as_a_correlation_of_0():
    prediction, target, unit, fold = small()
    prediction[:, 2] = 0.1
    draws = draw(by_seed(prediction, target, unit, fold), resamples=50)["pcc"]
    assert (draws.score[:, 2] == 0).all()
    assert (draws.resampled[:, 2] == 0).all()
    assert (draws.cell[:, 2] == 0).all()
    assert np.isfinite(errors(draws, [(0, 2)])[1]).all()


def test_a_model_that_knows_only_the_means_of_its_folds_counts_as_0_too():
    prediction, target, unit, fold = small()
    prediction[:, 2, :, 0] = fold * 0.5
    draws = draw(by_seed(prediction, target, unit, fold), resamples=20)
    assert (draws["pcc"].score[:, 2] == 0).all()
    squares = (0.5 * fold - target[:, 0]) ** 2
    np.testing.assert_allclose(draws["mse"].score[:, 2], squares.mean(1), rtol=1e-12)


def test_seeds_may_have_test_parts_of_their_own():
    generator = np.random.default_rng(5)
    target = generator.normal(size=(60, 2))
    parts = [generator.choice(60, size, replace=False) for size in (30, 20)]
    given = [
        Predicted(target[part] + generator.normal(size=(2, len(part), 2)), target[part], part // 3, np.zeros_like(part))
        for part in parts
    ]
    draws = draw(given, resamples=9, seed=2)
    units = np.unique(np.concatenate(parts) // 3)  # of the 20 those that are tested
    counts = np.zeros((9, 20), int)
    counts[:, units] = np.random.default_rng(2).multinomial(len(units), np.full(len(units), 1 / len(units)), 9)
    for name in ("pcc", "mse"):
        expected = np.mean(
            [[oracle.resampled(p.prediction[None], p.target, p.unit, row, name) for row in counts] for p in given], 0
        )
        np.testing.assert_allclose(draws[name].resampled, expected, rtol=1e-10)
        assert draws[name].share.tolist() == [0.5, 0.5]
        np.testing.assert_allclose(draws[name].share @ draws[name].cell, draws[name].score.mean(0), rtol=1e-10)


def test_a_seed_of_which_nothing_is_drawn_keeps_its_score():
    generator = np.random.default_rng(0)
    target = generator.normal(size=(8, 1))
    own = [
        Predicted(target + generator.normal(size=(2, 8, 1)), target, np.full(8, s), np.zeros(8, int)) for s in (0, 1)
    ]
    draws = draw(own, resamples=40)
    for one in draws.values():
        assert np.isfinite(one.resampled).all()
        either = np.isclose(one.resampled[:, :, None], one.score.mean(0)[None, :, None]).any(2)
        assert either.all()  # whichever of both units is drawn, the score of either seed is what it was


def test_one_training_says_nothing_about_others():
    generator = np.random.default_rng(0)
    target = generator.normal(size=(50, 1))
    one = Predicted(target + generator.normal(size=(2, 50, 1)), target, np.arange(50), np.zeros(50, int))
    found = pairwise(*errors(draw([one])["pcc"], [(0, 1)]))[0]
    assert found.low < found.difference < found.high


def test_samples_without_a_label_are_as_good_as_absent():
    prediction, target, unit, fold = small(targets=2)
    less = np.where(np.arange(24)[:, None] < 20, target, np.nan)
    there = draw(by_seed(prediction[:, :, :20], target[:20], unit[:20], fold[:, :20]), resamples=2)
    masked = draw(by_seed(prediction, less, unit, fold), resamples=300)
    for name in ("pcc", "mse"):
        np.testing.assert_allclose(masked[name].score, there[name].score, rtol=1e-12)
        mean = masked[name].share @ masked[name].cell
        np.testing.assert_allclose(mean, there[name].score.mean(0), rtol=1e-10)
        assert np.isfinite(errors(masked[name], [(0, 1)])[1]).all()
    nothing = draw(by_seed(prediction, np.where([True, False], target, np.nan), unit, fold), resamples=2)["pcc"]
    only = draw(by_seed(prediction[..., :1], target[:, :1], unit, fold), resamples=2)["pcc"]
    np.testing.assert_allclose(nothing.score, only.score / 2, rtol=1e-12)  # undefined: counts as 0


def won(world: oracle.World, seed: int) -> bool:
    unit = sample_units(len(world.target), group=world.group, time=world.time)
    draws = draw(by_seed(world.prediction, world.target, unit, world.fold), resamples=200, seed=seed)["pcc"]
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
        seeds = by_seed(world.prediction, world.target, np.arange(200), world.fold)
        draws = draw(seeds, resamples=200, seed=seed)["pcc"]
        difference, error = errors(draws._replace(cell=np.zeros_like(draws.cell)), [(1, 0)], seed=seed)
        wins += pairwise(difference, error)[0].side != 0
    assert wins > 9  # 15 %


def test_few_units_that_also_trained_the_models_widen_the_interval() -> None:
    """Full up to 60 units, gone for many, and none where a test part is apart from what trained."""
    assert design_effect(2, 30) == pytest.approx(3.0)
    assert design_effect(5, 60) == pytest.approx(2.25)
    assert design_effect(5, 120) == pytest.approx(1.625)
    assert design_effect(10, 1e6) == pytest.approx(1.0, abs=1e-3)
    assert design_effect(1, 30) == 1.0
