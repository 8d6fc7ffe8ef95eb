"""Ridge, nearest neighbours and LightGBM: against scikit-learn, and what they may see."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from excora.comparison.peers import PEERS, Fold, Part, lightgbm, neighbours, ridge
from excora.comparison.scores import criterion, score
from excora.errors import MissingExtraError
from excora.settings import Settings


def fold(*, n: int = 60, columns: int = 4, targets: int = 1, weighted: bool = False, seed: int = 0) -> Fold:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(3 * n, columns)) * np.linspace(0.2, 3, columns) + 1.0
    y = np.sin(x[:, :targets]) + x[:, 1 : 1 + targets] + 0.3 * generator.normal(size=(3 * n, targets))
    weight = generator.uniform(0.1, 2, 3 * n) if weighted else None

    def part(index: slice) -> Part:
        return Part(x[index], y[index], None if weight is None else weight[index])

    return Fold(part(slice(n)), part(slice(n, 2 * n)), x[2 * n :])


def scaled(given: Fold, chosen: dict) -> tuple[np.ndarray, np.ndarray]:
    """Training and test features as chosen."""
    if not chosen["scaled"]:
        return given.train.x, given.test
    mean, std = given.train.x.mean(0), given.train.x.std(0)
    return (given.train.x - mean) / std, (given.test - mean) / std


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "columns"), [(60, 4), (20, 50)])
def test_ridge_is_that_of_scikit_learn(n, columns, weighted):
    given = fold(n=n, columns=columns, targets=2, weighted=weighted)
    found = ridge(given, Settings(), 0)
    x, test = scaled(given, found.chosen)
    weight = given.train.weight if weighted else np.ones(n)
    model = Ridge(alpha=n * found.chosen["penalty"], solver="svd")
    model.fit(x, given.train.y, sample_weight=weight / weight.mean())
    np.testing.assert_allclose(found.prediction, model.predict(test), rtol=1e-7, atol=1e-9)


def test_neighbours_are_those_of_scikit_learn():
    given = fold(targets=2)
    found = neighbours(given, Settings(), 0)
    x, test = scaled(given, found.chosen)
    how = "distance" if found.chosen["by distance"] else "uniform"
    model = KNeighborsRegressor(found.chosen["neighbours"], weights=how).fit(x, given.train.y)
    np.testing.assert_allclose(found.prediction, model.predict(test), rtol=1e-10)


def test_neighbours_at_distance_0_and_of_weight_0():
    given = fold(n=12, weighted=True)
    copies = given._replace(validation=given.train, test=given.train.x)
    found = neighbours(copies, Settings(criterion="mse"), 0)
    np.testing.assert_allclose(found.prediction, given.train.y, rtol=1e-14)  # each finds itself
    nothing = copies._replace(train=given.train._replace(weight=np.zeros(12)))
    assert np.isfinite(neighbours(nothing, Settings(), 0).prediction).all()


def test_what_is_chosen_is_best_on_validation():
    given = fold()
    for name in ("ridge", "neighbours", "lightgbm"):
        held = PEERS[name](given._replace(test=given.validation.x), Settings(), 0)
        bad = criterion(np.zeros_like(given.validation.y), given.validation.y, None, Settings())
        assert criterion(held.prediction, given.validation.y, None, Settings()) < 0.7 * bad, name


@pytest.mark.parametrize("name", PEERS)
def test_a_prediction_depends_on_no_other_test_sample(name):
    given = fold()
    other = given.test.copy()
    other[1:] += 100.0
    first, second = (PEERS[name](given._replace(test=test), Settings(), 0).prediction for test in (given.test, other))
    np.testing.assert_array_equal(first[0], second[0])


def test_lightgbm_is_silent_and_repeats_itself(capfd):
    given = fold(n=8, targets=2)  # fewer than a leaf of the larger trees may hold
    given.train.x[:, 0] = 1.0
    first, second = (lightgbm(given, Settings(), 3) for _ in range(2))
    np.testing.assert_array_equal(first.prediction, second.prediction)
    assert first.prediction.shape == (8, 2)
    assert [sorted(chosen) for chosen in first.chosen["targets"]] == [["leaves", "trees"]] * 2
    assert capfd.readouterr() == ("", "")


def test_a_missing_lightgbm_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"excora\[compare\]"):
        lightgbm(fold(), Settings(), 0)


def test_scores_and_criterion():
    prediction, target = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]]), np.array([[2.0, 1.0], [4.0, 2.0], [8.0, 4.0]])
    assert score(prediction, target).pcc == pytest.approx(1.0)  # of the target that has one
    assert np.isnan(score(prediction[:, 1:], target[:, 1:]).pcc)
    assert score(prediction, target).mse == pytest.approx((21 / 3 + 26 / 3) / 2)
    assert score(prediction, target).mae == pytest.approx((7 / 3 + 8 / 3) / 2)
    mse = (21 / 3 + 26 / 3) / 2
    for kind, expected in (("mse", mse), ("pcc", -0.5), ("joint", mse + 0.25)):
        assert criterion(prediction, target, None, Settings(criterion=kind)) == pytest.approx(expected)
    weight = np.array([1.0, 0.0, 2.0])
    assert criterion(prediction, target, weight, Settings(criterion="mse")) == pytest.approx((33 / 3 + 18 / 3) / 2)
