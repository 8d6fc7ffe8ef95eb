"""Every registered peer, whoever wrote it: shapes, few rows, weights, targets, unknown labels, repeatability."""

from __future__ import annotations

import numpy as np
import pytest
from peers.samples import parts

from excora.peers import Part, Peer, peers
from excora.stats.scores import criterion

#: Of the settings of a peer what makes a test quick.
QUICK = {"extratrees": {"n_estimators": 10}, "tabm": {"d_block": 16, "k": 2, "most": 3, "lr": 1e-2}}


@pytest.fixture(params=peers.names())
def name(request) -> str:
    return request.param


def fitted(name: str, train: Part, validation: Part | None = None, *, seed: int = 0, **given):
    return peers[name].fit(train, settings(name) | given, validation=validation, measure=criterion(), seed=seed)


def settings(name: str) -> dict:
    found = peers[name].candidates[0] | QUICK.get(name, {})
    return found | ({"rounds": 20, "min_data_in_leaf": 2} if name == "lightgbm" else {})


def test_it_says_who_it_is(name):
    assert isinstance(peers[name], Peer)
    assert peers[name].label
    assert peers[name].candidates
    peers[name].check()


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("held", [False, True], ids=["alone", "with validation"])
def test_it_predicts_each_target_of_any_rows(name, targets, held):
    train, validation, test = parts(targets=targets)
    found = fitted(name, train, validation if held else None)
    for rows in (test, test[:1], test[:0]):
        prediction = found.predict(rows)
        assert prediction.shape == (len(rows), targets)
        assert prediction.dtype == np.float64
        assert np.isfinite(prediction).all()


def test_a_prediction_depends_on_no_other_row(name):
    train, validation, test = parts()
    found = fitted(name, train, validation)
    other = test.copy()
    other[1:] += 100.0
    np.testing.assert_allclose(found.predict(test)[0], found.predict(other)[0], rtol=1e-6)
    np.testing.assert_allclose(found.predict(test)[0], found.predict(test[:1])[0], rtol=1e-6)


def test_the_same_seed_gives_the_same_and_what_is_given_stays(name):
    train, validation, test = parts(weighted=True)
    copies = [part.copy() for part in (*train, *validation, test)]
    first, second = (fitted(name, train, validation, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.predict(test), second.predict(test))
    assert first.parameters == second.parameters
    for before, after in zip(copies, (*train, *validation, test), strict=True):
        np.testing.assert_array_equal(before, after)


def test_what_validation_fixed_can_be_fitted_again_without_it(name):
    train, validation, test = parts()
    found = fitted(name, train, validation)
    again = peers[name].fit(train, found.parameters)
    np.testing.assert_allclose(again.predict(test), found.predict(test), rtol=1e-4, atol=1e-5)
    assert peers[name].chosen(found.parameters).keys() is not None


def test_candidates_share_work_but_not_results(name):
    train, validation, test = parts()
    given = [one | QUICK.get(name, {}) for one in peers[name].candidates[:3]]
    together = list(peers[name].fits(train, given, validation=validation))
    assert len(together) == len(given)
    for one, parameters in zip(together, given, strict=True):
        alone = peers[name].fit(train, parameters, validation=validation)
        np.testing.assert_allclose(one.predict(test), alone.predict(test), rtol=1e-10, atol=1e-12)


def test_samples_without_a_label_are_as_good_as_absent(name):
    train, validation, test = parts(targets=2, weighted=True)
    hidden = np.arange(60) % 3 == 0
    y = train.y.copy()
    y[hidden, 1] = np.nan
    found = fitted(name, train._replace(y=y), validation).predict(test)
    assert np.isfinite(found).all()
    kept = Part(train.x[~hidden], train.y[~hidden, 1:], train.weight[~hidden])
    alone = fitted(name, kept, validation._replace(y=validation.y[:, 1:])).predict(test)
    np.testing.assert_allclose(found[:, 1:], alone, rtol=1e-10, atol=1e-12)


def test_labels_may_be_unknown_at_random_and_in_validation(name):
    train, validation, test = parts(targets=3, unknown=0.4)
    found = fitted(name, train, validation).predict(test)
    assert found.shape == (60, 3)
    assert np.isfinite(found).all()


def test_few_samples_and_none(name):
    train, _, test = parts(targets=2)
    for n in (0, 1, 2, 3):
        few = Part(train.x[:n], train.y[:n])
        assert np.isfinite(fitted(name, few).predict(test)).all()
        if n < 2:
            np.testing.assert_allclose(fitted(name, few).predict(test), np.tile(few.y.sum(0), (60, 1)))


def test_weights_count(name):
    train, _, _ = parts()
    x, y = np.concatenate([train.x, train.x]), np.repeat([[0.0], [1.0]], 60, 0)
    weight = np.repeat([1.0, 9.0], 60)
    given = {"neighbours": {"neighbours": 2}, "tabm": {"most": 60}}.get(name, {})
    for part, level in ((Part(x, y, weight), 0.9), (Part(x, y), 0.5)):
        found = fitted(name, part, **given).predict(train.x)
        np.testing.assert_allclose(found, level, atol=0.1)  # each sample twice, with either label


def test_it_learns(name):
    if name == "mean":
        return
    train, validation, _ = parts(n=200)
    given = {"most": 40} if name == "tabm" else {"rounds": 100} if name == "lightgbm" else {}
    found = fitted(name, train, validation, **given)
    measure = criterion("mse")
    assert measure(found.predict(validation.x), validation.y, None) < 0.5 * validation.y.var()
