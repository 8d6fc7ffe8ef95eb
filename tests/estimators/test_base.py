"""TabularRegressor: what it learns from, what it leaves alone, and what it refuses."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pytest
import torch

from excora.errors import InputError
from excora.estimators import TabularRegressor, base


def small(**changed):
    """A regressor that learns a straight line in a second."""
    options = {
        "model": "pool",
        "dim": 16,
        "heads": 2,
        "epochs": 4,
        "learning_rate": 0.02,
        "batch_size": 32,
        "random_state": 0,
    }
    return TabularRegressor(**{**options, **changed})


def line(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, 5 + x @ np.array([2.0, -1.0, 0.0])


def test_it_learns_and_scores_by_r_squared():
    x, y = line(150)
    model = small(epochs=12).fit(x, y)
    new, truth = line(100, seed=1)
    prediction = model.predict(new)
    r2 = 1 - ((truth - prediction) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    assert r2 > 0.9
    assert model.score(new, truth) == pytest.approx(r2)


def test_the_fitted_attributes_tell_the_story_of_the_run():
    x, y = line()
    model = small(epochs=3, start="none").fit(x, y)
    assert model.n_iter_ == len(model.history_) == 3
    assert [row["epoch"] for row in model.history_] == [0, 1, 2]
    criterion = [row["validation_criterion"] for row in model.history_]
    assert model.best_epoch_ == int(np.argmin(criterion))
    assert model.verdict_.name == "cannot tell"  # three epochs are too few
    assert model.preparation_.spec.numeric == 3
    assert not model.network_.training


def test_equal_seeds_give_equal_bits_and_none_is_fresh():
    x, y = line()
    first, again, other = (small(epochs=1, dropout=0.2, random_state=seed).fit(x, y).predict(x) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    fresh = [small(epochs=1, random_state=None).fit(x, y).predict(x) for _ in range(2)]
    assert not np.array_equal(*fresh)
    state = np.random.RandomState(3)
    drawn = [small(epochs=1, random_state=state).fit(x, y).predict(x) for _ in range(2)]
    assert not np.array_equal(*drawn)
    assert np.array_equal(drawn[0], small(epochs=1, random_state=np.random.RandomState(3)).fit(x, y).predict(x))


@pytest.mark.parametrize("seed", [0, None])
def test_the_global_random_states_stay_as_they_were(seed):
    x, y = line(20)
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    small(epochs=1, dropout=0.5, random_state=seed).fit(x, y).predict(x)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]


def test_nothing_is_printed_and_no_file_is_left(tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.chdir(tmp_path)
    x, y = line(20)
    small(epochs=2).fit(x, y).predict(x)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert list(tmp_path.iterdir()) == []


def test_verbose_asks_for_the_progress_bar(monkeypatch):
    seen = spy(monkeypatch)
    for verbose in (True, False):
        small(epochs=1, verbose=verbose).fit(*line(20))
    assert [options["progress"] for _, options in seen] == [True, False]


def test_predictions_have_the_shape_of_the_labels():
    x, y = line(30)
    both = np.column_stack([y, 100 - 3 * y])
    model = small(epochs=10).fit(x, both)
    prediction = model.predict(x)
    assert prediction.shape == (30, 2)
    assert prediction.dtype == np.float64
    assert np.corrcoef(prediction[:, 0], prediction[:, 1])[0, 1] < -0.5
    assert small(epochs=1).fit(x, y[:, None]).predict(x).shape == (30, 1)
    assert small(epochs=1).fit(x, y).predict(x[:1]).shape == (1,)


def mixed(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], rows)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "colour": colour,
            "shape": pd.Categorical(rng.choice(["round", "square"], rows)),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D"),
        }
    )
    return frame, np.where(colour == "red", 3.0, -3.0) + 0.1 * rng.normal(size=rows)


def test_frames_with_text_categories_dates_and_gaps():
    frame, y = mixed(120)
    model = small(epochs=8).fit(frame, y)
    assert list(model.feature_names_in_) == ["size", "colour", "shape", "when"]
    assert model.n_features_in_ == 4
    new, truth = mixed(60, seed=1)
    assert model.score(new, truth) > 0.8
    new.loc[0, "colour"] = "mauve"
    assert np.isfinite(model.predict(new)).all()
    with pytest.raises(InputError, match="unique column names"):
        small().fit(frame.set_axis(["size", "size", "shape", "when"], axis=1), y)
    with pytest.raises(InputError, match="at least one row"):
        model.predict(frame[:0])
    with pytest.raises(InputError, match="feature names should match"):
        model.predict(new.rename(columns={"size": "length"}))


def test_missing_numbers_in_an_array_are_fine_and_infinite_ones_are_not():
    x, y = line(30)
    x[::4, 0] = np.nan
    model = small(epochs=1).fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    x[3, 1] = np.inf
    with pytest.raises(InputError, match="infinity"):
        model.predict(x)
    with pytest.raises(InputError, match="infinit"):
        model.fit(pd.DataFrame(x, columns=["a", "b", "c"]), y)


@pytest.mark.parametrize("rows", [2, 3, 5, 11])
def test_a_handful_of_rows_is_enough_to_run(rows):
    x, y = line(rows)
    prediction = small(epochs=2).fit(x, y).predict(x)
    assert prediction.shape == (rows,)
    assert np.isfinite(prediction).all()


def test_a_constant_label_is_predicted():
    x, _ = line(30)
    model = small(epochs=1).fit(x, np.full(30, 1e6))
    assert (model.predict(x) == 1e6).all()
    both = small(epochs=1).fit(x, np.column_stack([np.full(30, 0.1), x[:, 0]])).predict(x)
    assert (both[:, 0] == 0.1).all()
    assert np.ptp(both[:, 1]) > 0


def test_too_few_rows_for_a_validation_part_validate_on_the_training_part(monkeypatch):
    seen = spy(monkeypatch)
    x, y = line(30)
    small(epochs=1).fit(x[:6], y[:6])
    small(epochs=1, validation_fraction=0.0).fit(x, y)
    small(epochs=1).fit(x, y)
    few, none, usual = (split for split, _ in seen)
    assert (list(few.train), list(few.validation)) == (list(range(6)), list(range(6, 12)))
    assert (list(none.train), list(none.validation)) == (list(range(30)), list(range(30, 60)))
    assert len(usual.validation) == 6
    assert sorted([*usual.train, *usual.validation]) == list(range(30))


def spy(monkeypatch):
    """What training is called with: split and options."""
    seen, train = [], base.train

    def watched(network, features, target, split, *setup, **options):
        seen.append((split, options))
        return train(network, features, target, split, *setup, **options)

    monkeypatch.setattr(base, "train", watched)
    return seen


def test_the_validation_part_never_cuts_a_group(monkeypatch):
    seen = spy(monkeypatch)
    x, y = line(60)
    groups = np.repeat(np.arange(12), 5)
    small(epochs=1).fit(x, y, groups=groups)
    small(epochs=1).fit(x, y, groups=["one"] * 60)  # nothing to part
    (parted, _), (whole, _) = seen
    assert len(parted.validation) > 0
    assert not set(groups[parted.train]) & set(groups[parted.validation])
    assert len(whole.train) == len(whole.validation) == 60


def test_weights_say_which_rows_to_believe():
    rng = np.random.default_rng(0)
    x = np.tile(rng.normal(size=(60, 2)), (2, 1))
    y = np.concatenate([x[:60, 0], -x[:60, 0]])
    first = np.concatenate([np.ones(60), np.full(60, 0.01)])
    model = small(epochs=8)
    assert np.corrcoef(model.fit(x, y, sample_weight=first).predict(x[:60]), x[:60, 0])[0, 1] > 0.9
    assert np.corrcoef(model.fit(x, y, sample_weight=first[::-1]).predict(x[:60]), x[:60, 0])[0, 1] < -0.9


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_only_ratios_of_weights_matter(unit):
    x, y = line(30)
    weight = 2.0 ** np.arange(30)
    plain, scaled = (small(epochs=1).fit(x, y, sample_weight=w).predict(x) for w in (weight, unit * weight))
    np.testing.assert_allclose(plain, scaled, rtol=1e-5)


def test_rows_of_weight_zero_are_not_looked_at():
    x, y = line(40)
    wild = y.copy()
    wild[::4] = 1e9
    weight = np.ones(40)
    weight[::4] = 0
    kept = weight > 0
    assert np.array_equal(
        small(epochs=2).fit(x, wild, sample_weight=weight).predict(x),
        small(epochs=2).fit(x[kept], y[kept], sample_weight=weight[kept]).predict(x),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(29)}, "30.*29|29.*30"),
        ({"y": np.full(30, np.nan)}, "NaN"),
        ({"y": np.zeros((30, 2, 2))}, "dim"),
        ({"y": ["a"] * 30}, "could not convert"),
        ({"sample_weight": np.full(30, -1.0)}, "[Nn]egative|negative"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"sample_weight": np.zeros(30)}, "zero"),
        ({"sample_weight": np.full(30, np.nan)}, "NaN"),
        ({"groups": [1, 2]}, "groups"),
    ],
)
def test_wrong_arguments_of_fit_are_named(change, message):
    x, y = line(30)
    with pytest.raises(InputError, match=message):
        small().fit(**{"X": x, "y": y, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": "max"}, "pool must be one of"),
        ({"epochs": 0}, "epochs must be .*at least 1"),
        ({"dim": "wide"}, "dim must be a whole number"),
        ({"dim": 10, "heads": 4}, "heads"),
        ({"validation_fraction": 1.0}, r"validation_fraction.*\[0, 1\)"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_wrong_options_are_named(change, message):
    with pytest.raises(InputError, match=message):
        small(**change).fit(*line(30))


def test_constant_columns_alone_cannot_be_learned_from():
    with pytest.raises(InputError, match="no column left"):
        small().fit(np.ones((30, 2)), np.arange(30.0))


def test_a_prediction_does_not_depend_on_its_neighbours():
    x, y = line(300)
    model = small(epochs=2).fit(x, y)
    np.testing.assert_allclose(
        model.predict(x)[::7], [model.predict(x[k : k + 1])[0] for k in range(0, 300, 7)], rtol=1e-13
    )


def test_the_width_is_that_of_training():
    x, y = line(30)
    model = small(epochs=1).fit(x, y)
    with pytest.raises(InputError, match=r"2 features.*expecting 3"):
        model.predict(x[:, :2])


def test_the_user_may_bring_the_validation_part():
    x, y = line(60)
    held, truth = line(30, seed=1)
    truth = truth + np.random.default_rng(2).normal(size=30)
    model = small(epochs=3, start="none").fit(x, y, eval_set=[(held, truth)])
    kept = model.history_[model.best_epoch_]
    prediction = model.predict(held)
    assert kept["validation_pcc"] == pytest.approx(np.corrcoef(prediction, truth)[0, 1], abs=1e-5)
    assert model.preparation_.mean[0] == pytest.approx(y.mean())  # scales are those of all training rows, and no others
    pair = small(epochs=3, start="none").fit(x, y, eval_set=(held, truth))
    assert (pair.predict(held) == prediction).all()
    assert model.best_epoch_ == int(np.argmin([row["validation_criterion"] for row in model.history_]))


def test_the_validation_part_decides_the_epoch():
    """The same training rows: labels that training moves away from keep the first epoch, others the last."""
    x, y = line(60)
    epochs = [
        small(epochs=5, dropout=0.0, start="none").fit(x, y, eval_set=[(x, sign * y)]).best_epoch_ for sign in (1, -1)
    ]
    assert epochs[0] > epochs[1]


def test_weights_groups_and_frames_go_with_a_validation_part():
    x, y = line(40)
    frame = pd.DataFrame(x, columns=list("abc")).assign(d=np.where(x[:, 0] > 0, "up", "down"))
    options = {"sample_weight": np.arange(40.0), "groups": np.arange(40) // 4}
    model = small(epochs=2).fit(frame, y, eval_set=[(frame[:10], y[:10])], **options)
    assert model.predict(frame).shape == (40,)


def test_a_validation_part_that_cannot_be_is_refused():
    x, y = line(20)
    for wrong, message in [
        ([], "one pair of samples and labels"),
        ([(x, y), (x, y)], "one pair of samples and labels"),
        ([(x, np.stack([y, y], 1))], "the y of eval_set must have the shape of y"),
        ([(x[:, :2], y)], "2 features, but TabularRegressor is expecting 3"),
        ([(x, y[:5])], "y must have one entry a sample"),
    ]:
        with pytest.raises(InputError, match=message):
            small(epochs=1).fit(x, y, eval_set=wrong)
