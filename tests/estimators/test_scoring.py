"""The scorer: scipy's correlation inside scikit-learn's tools."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

import excora
from estimators.test_base import line, small
from excora.errors import InputError
from excora.estimators.scoring import pearson_score


def test_cross_validation_gives_the_correlation_of_each_fold():
    x, y = line(40)
    y = y + np.random.default_rng(1).normal(size=40)
    folds, model = KFold(3), small(epochs=2)
    found = cross_val_score(model, x, y, cv=folds, scoring=excora.pearson_scorer)
    predicted = cross_val_predict(model, x, y, cv=folds)
    expected = [pearsonr(predicted[test], y[test]).statistic for _, test in folds.split(x)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_search_picks_by_it():
    x, y = line(60)
    search = GridSearchCV(LinearRegression(), {"fit_intercept": [True, False]}, scoring=excora.pearson_scorer, cv=3)
    search.fit(x, y - 5 + 40 * x[:, 2] ** 2)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ == scores.max()


def test_weights_targets_and_shapes():
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=(2, 30, 2))
    each = [pearsonr(x[:, k], y[:, k]).statistic for k in range(2)]
    assert pearson_score(y, x) == pytest.approx(np.mean(each), rel=1e-12)
    twice = np.r_[np.arange(30), np.arange(10)]
    weight = 1.0 + (np.arange(30) < 10)
    assert pearson_score(y[:, 0], x[:, 0], sample_weight=weight) == pytest.approx(
        pearsonr(x[twice, 0], y[twice, 0]).statistic, rel=1e-12
    )
    assert pearson_score(y[:, :1], x[:, 0]) == pytest.approx(each[0], rel=1e-12)


def test_what_is_undefined_counts_as_0_and_what_does_not_fit_is_refused():
    assert pearson_score([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]) == 0.0
    assert pearson_score([1.0], [4.0]) == 0.0
    with pytest.raises(InputError, match="one shape, got"):
        pearson_score([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="sample_weight must have the shape"):
        pearson_score([1.0, 2.0], [1.0, 2.0], sample_weight=[1.0])
