"""The regressors among scikit-learn's tools: its own checks, pipelines, cross-validation, searches, warm starts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.test_base import line, small, spy
from excora.errors import InputError
from excora.estimators import BagRegressor, TabularRegressor

WEIGHTS_ARE_NOT_COPIES = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of 2 and a row given twice fall into other mini-batches "
    "and another validation part: the models are alike, not equal to 1e-7"
}


@parametrize_with_checks(
    [TabularRegressor(dim=8, heads=2, layers=1, epochs=1, batch_size=32, learning_rate=0.03)],
    expected_failed_checks=lambda _: WEIGHTS_ARE_NOT_COPIES,
)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    if check.func.__name__ == "check_regressors_train":  # the one that asks for a good fit
        estimator.set_params(epochs=12)
    check(estimator)


def test_clones_pipelines_and_target_transformers():
    x, y = line(40)
    model = small(epochs=2)
    copy = clone(model.fit(x, y))
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(x)
    pipeline = make_pipeline(StandardScaler(), small(epochs=8)).fit(x, y)
    assert pipeline.score(x, y) > 0.5
    logged = TransformedTargetRegressor(small(epochs=2), func=np.log, inverse_func=np.exp).fit(x, np.exp(y / 4))
    assert (logged.predict(x) > 0).all()


def test_cross_validation_with_groups():
    x, y = line(60)
    groups = np.repeat(np.arange(6), 10)
    model = small(epochs=6)
    prediction = cross_val_predict(model, x, y, groups=groups, cv=GroupKFold(2), params={"groups": groups})
    assert np.corrcoef(prediction, y)[0, 1] > 0.8
    scores = cross_val_score(model, x, y, cv=2, scoring=lambda m, a, b: np.corrcoef(m.predict(a), b)[0, 1])
    assert (scores > 0.8).all()


# Workers are new processes: estimators travel by real pickling, there and, refitted, back.
@pytest.mark.long
def test_a_grid_search_in_two_processes():
    x, y = line(40)
    bags = list(np.random.default_rng(0).normal(size=(40, 3, 3)))
    for model, data in ((small(epochs=1), x), (BagRegressor(dim=8, epochs=1, random_state=0), bags)):
        search = GridSearchCV(model, {"learning_rate": np.array([0.001, 0.02])}, cv=2, n_jobs=2).fit(data, y)
        here = clone(model).set_params(**search.best_params_).fit(data, y)
        assert np.array_equal(search.predict(data), here.predict(data))
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_search_can_route_groups_to_the_folds_and_to_the_fit(monkeypatch):
    seen = spy(monkeypatch)
    x, y = line(40)
    groups = np.repeat(np.arange(10), 4)
    with config_context(enable_metadata_routing=True):
        model = small(epochs=1).set_fit_request(groups=True)
        GridSearchCV(model, {"dim": [4, 8]}, cv=GroupKFold(2), refit=False).fit(x, y, groups=groups)
    assert [len(split.validation) for split, _ in seen] == [4] * 4  # one group of five; 20 % of 20 samples


def test_a_warm_start_goes_on_from_the_present_weights():
    x, y = line(60)
    model = small(epochs=2, warm_start=True, start="none").fit(x, y)
    before, start = model.predict(x), model.history_
    model.set_params(learning_rate=0.0).fit(x, y)
    assert np.array_equal(model.predict(x), before)
    assert model.history_ is not start
    assert model.set_params(learning_rate=0.02, epochs=12).fit(x, y).score(x, y) > 0.9
    cold = model.set_params(warm_start=False, epochs=1, learning_rate=0.0).fit(x, y).predict(x)
    assert not np.array_equal(cold, before)


def test_a_warm_start_keeps_the_network_it_has():
    x, y = line(30)
    model = small(epochs=1, warm_start=True).fit(x, y)
    with pytest.raises(InputError, match=r"dim .*8.*16.*warm_start=False"):
        model.set_params(dim=8).fit(x, y)
    model.set_params(dim=16)
    with pytest.raises(InputError, match=r"1 target.* 2"):
        model.fit(x, np.column_stack([y, y]))
    with pytest.raises(InputError, match="expecting 3 features"):
        model.fit(x[:, :2], y)
    model.set_params(warm_start=False).fit(x, np.ones(30))
    with pytest.raises(InputError, match="too far from the labels"):
        model.set_params(warm_start=True).fit(x, y)
