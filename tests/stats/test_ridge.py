"""excora.stats.ridge against scikit-learn and against fits that really leave a sample out."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from excora.errors import InputError
from excora.stats.ridge import PENALTIES, LeftOutGroups, RidgePath, left_out_ridge, standardised_ridge

SHAPES = [(30, 4), (12, 40), (9, 9)]


def _data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) * rng.uniform(0.1, 5, size=p) + 3
    return x, x[:, :2] @ rng.normal(size=(2, 2)) + rng.normal(size=(n, 2)), rng.uniform(0.2, 3, size=n)


def _peer(x, y, weight, alpha):
    # scikit-learn leaves the weights as they are: alpha in units of their mean
    return Ridge(alpha=alpha * weight.mean(), solver="svd").fit(x, y, sample_weight=weight)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [1e-2, 3.0, 1e4])
def test_path_is_scikit_learns(shape, alpha):
    x, y, weight = _data(*shape)
    fit, peer = RidgePath(x, y, weight).at(alpha), _peer(x, y, weight, alpha)
    new = _data(5, shape[1], seed=1)[0]
    np.testing.assert_allclose(fit.predict(new), peer.predict(new), rtol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_is_a_fit_without_the_sample(shape, weighted):
    x, y, weight = _data(*shape)
    weight = weight if weighted else np.ones(len(x))
    found = RidgePath(x, y, weight).left_out(2.5)
    for i in range(len(x)):
        rest = np.arange(len(x)) != i
        peer = Ridge(alpha=2.5 * weight.mean(), solver="svd").fit(x[rest], y[rest], sample_weight=weight[rest])
        np.testing.assert_allclose(found[i], peer.predict(x[i : i + 1])[0], rtol=1e-7)


def test_penalty_is_the_best_on_left_out_samples_by_target():
    x, y, _ = _data(40, 6)
    y[:, 1] = np.random.default_rng(5).normal(size=40)  # nothing to learn: a strong penalty
    fit = left_out_ridge(x, y)
    errors = np.array([((y - RidgePath(x, y).left_out(a)) ** 2).sum(0) for a in PENALTIES])
    np.testing.assert_allclose(fit.penalty, np.array(PENALTIES)[errors.argmin(0)])
    assert fit.penalty[1] > 100 * fit.penalty[0]
    np.testing.assert_allclose(((y - fit.left_out) ** 2).sum(0), errors.min(0))
    np.testing.assert_allclose(fit.line.predict(x)[:, 0], RidgePath(x, y).at(fit.penalty[0]).predict(x)[:, 0])


def test_unknown_labels_do_not_count():
    x, y, weight = _data(30, 4)
    holes = y.copy()
    holes[::3, 0] = np.nan
    known = ~np.isnan(holes[:, 0])
    fit, apart = left_out_ridge(x, holes, weight), left_out_ridge(x[known], y[known][:, :1], weight[known])
    np.testing.assert_allclose(fit.line.coefficient[:, :1], apart.line.coefficient)
    np.testing.assert_allclose(fit.left_out[known, :1], apart.left_out)
    np.testing.assert_allclose(fit.left_out[~known, 0], fit.line.predict(x)[~known, 0])
    np.testing.assert_allclose(fit.line.predict(x)[:, 1:], left_out_ridge(x, y[:, 1:], weight).line.predict(x))


@pytest.mark.parametrize("known", [0, 1, 2])
def test_hardly_any_label(known):
    y = np.full((5, 1), np.nan)
    y[:known] = 4.0
    fit = left_out_ridge(np.arange(10.0).reshape(5, 2), y)
    assert np.isinf(fit.penalty).all()
    np.testing.assert_array_equal(fit.left_out, np.full((5, 1), 4.0 if known else 0.0))


def test_constant_columns_and_labels():
    x = np.column_stack([np.ones(8), np.arange(8.0)])
    fit = left_out_ridge(x, np.full((8, 1), 2.0))
    np.testing.assert_allclose(fit.line.predict(x), 2.0)
    np.testing.assert_allclose(fit.left_out, 2.0)


def test_shapes_are_checked():
    with pytest.raises(InputError, match=r"features \(n, p\)"):
        left_out_ridge(np.zeros((3, 2)), np.zeros(3))


def test_groups_are_left_out_whole():
    x, y, weight = _data(24, 3)
    group = np.repeat(list("abcdef"), 4)
    found = LeftOutGroups(x, y, weight, group).left_out(2.5)
    for name in "abcdef":
        rest = group != name
        peer = _peer(x[rest], y[rest], weight[rest], 2.5)
        np.testing.assert_allclose(found[~rest], peer.predict(x[~rest]), rtol=1e-7)


def test_many_groups_share_ten_folds_and_one_group_is_left_out_sample_by_sample():
    x, y, _ = _data(48, 3)
    assert len(LeftOutGroups(x, y, None, np.arange(24).repeat(2)).folds) == 10
    one = left_out_ridge(x, y, group=np.zeros(48))
    np.testing.assert_array_equal(one.left_out, left_out_ridge(x, y).left_out)


def test_rows_of_a_group_that_repeat_each_other_ask_for_a_stronger_penalty():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 30)).repeat(6, 0) + 0.01 * rng.normal(size=(72, 30))
    y = rng.normal(size=(12, 1)).repeat(6, 0)  # of the group, not of x
    alone, apart = left_out_ridge(x, y), left_out_ridge(x, y, group=np.arange(12).repeat(6))
    assert apart.penalty[0] > 10 * alone.penalty[0]


def test_standardised_ridge_reads_columns_as_they_are():
    x, y, weight = _data(30, 4)
    x[:, 2] = 7.0  # never changes
    found = standardised_ridge(x, y, weight)
    moved = standardised_ridge(x * [1e-3, 1.0, 5.0, 1e4] + 9, y, weight)
    np.testing.assert_allclose(found.left_out, moved.left_out, rtol=1e-8)
    np.testing.assert_allclose(found.line.predict(x), moved.line.predict(x * [1e-3, 1.0, 5.0, 1e4] + 9), rtol=1e-8)
    assert not found.line.coefficient[2].any()
    z = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
    for t, alpha in enumerate(found.penalty):
        np.testing.assert_allclose(found.line.predict(x)[:, t], _peer(z, y, weight, alpha).predict(z)[:, t], rtol=1e-8)


def test_a_shared_penalty_is_that_of_the_least_sum_of_errors():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 8))
    y = x @ rng.normal(size=(8, 5)) + 3 * rng.normal(size=(30, 5))
    group = np.repeat(np.arange(5), 6)
    grid = (0.1, 3.0, 30.0, 500.0)
    for parts in (None, group):
        found = left_out_ridge(x, y, penalties=grid, group=parts, shared=True)
        errors = [((left_out_ridge(x, y, penalties=[a], group=parts).left_out - y) ** 2).sum() for a in grid]
        assert set(found.penalty) == {grid[int(np.argmin(errors))]}
        alone = left_out_ridge(x, y, penalties=found.penalty[:1].tolist(), group=parts)
        np.testing.assert_allclose(found.left_out, alone.left_out, rtol=1e-12)
        np.testing.assert_allclose(found.line.coefficient, alone.line.coefficient, rtol=1e-12)


def test_predictions_need_no_coefficients():
    rng = np.random.default_rng(5)
    for shape in ((12, 30), (30, 4)):
        x, y, new = rng.normal(size=shape), rng.normal(size=(shape[0], 3)), rng.normal(size=(6, shape[1]))
        path = RidgePath(x, y)
        np.testing.assert_allclose(path.predicted(path.turned(new), 2.0), path.at(2.0).predict(new), atol=1e-12)
        some = path.at(2.0, np.array([True, False, True]))
        np.testing.assert_allclose(some.coefficient, path.at(2.0).coefficient[:, [0, 2]], atol=1e-12)
