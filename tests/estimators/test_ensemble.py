"""TabularEnsemble: what it tries, picks and averages, files, broken input, scikit-learn."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from excora.errors import InputError
from excora.estimators import TabularEnsemble, TabularRegressor
from excora.estimators.ensemble import COMMON, DEFAULT, INDEX, SEEDS, listed, pick, suited


def small(**changed):
    given = {"trials": 2, "members": 1, "epochs": 1, "seconds": None, "default": False, "random_state": 0}
    return TabularEnsemble(**given | changed)


def wave(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=rows)


@pytest.fixture(scope="module")
def three():
    """Three members, of two trials, on an array."""
    return small(members=3).fit(*wave())


@pytest.fixture(scope="module")
def framed():
    """Two members and the default on a frame, and what was printed meanwhile."""
    x, y = wave(60)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model = small(members=2, default=True, verbose=True).fit(pd.DataFrame(x, columns=list("abc")), y)
    return model, printed.getvalue()


def test_pick_takes_the_best_step_each_time():
    draw = np.random.default_rng(0)
    target = draw.normal(size=40)
    given = [target + draw.normal(size=40) for _ in range(5)]
    chosen: list[int] = []
    for _ in range(3):
        tried = {k: np.square(np.mean([given[i] for i in [*chosen, k]], 0) - target).mean() for k in range(5)}
        chosen.append(min(tried, key=tried.__getitem__))
    assert pick(given, target, 3) == chosen


def test_every_trial_is_one_that_the_regressor_takes():
    x, y = wave(40)
    assert len(listed(12)) == 10
    assert len({json.dumps(trial, sort_keys=True) for trial in listed(12)}) == 10
    for trial in listed(1, 16):
        assert (trial["epochs"], trial["batch_size"] % 16) == (1, 0)
        model = TabularRegressor(**COMMON | trial, random_state=0).fit(x, y)
        assert np.isfinite(model.predict(x)).all(), trial
        assert model.network_.options["shared"] == trial.get("shared", 0)


def test_the_prediction_is_the_mean_of_members_fitted_on_all_rows(three):
    (x, _), model = wave(), three
    assert [len(member.network_.context_labels) for member in model.members_] == [120] * 3
    assert model.predict(x[:5]) == pytest.approx(np.mean([member.predict(x[:5]) for member in model.members_], 0))
    seeds = [member.random_state for member in model.members_]
    assert seeds == [0, SEEDS, 2 * SEEDS]
    settings = [COMMON | listed(1, 32)[number] for number in model.chosen_]
    assert [member.dropout for member in model.members_] == [given["dropout"] for given in settings]
    assert [member.pool for member in model.members_] == ["eca"] * 3
    assert [member.batch_size for member in model.members_] == [given["batch_size"] for given in settings]


def test_half_of_the_prediction_is_that_of_the_default(framed):
    x, y = wave(60)
    model, frame = framed[0], pd.DataFrame(x, columns=list("abc"))
    alone = TabularRegressor(random_state=0).fit(frame, y).predict(frame)
    attention = np.mean([member.predict(frame) for member in model.members_], 0)
    assert model.predict(frame) == pytest.approx((attention + alone) / 2)
    assert np.abs(attention - alone).max() > 0.1
    assert small(trials=1).fit(x, y).default_ is None


def test_few_rows_get_more_epochs_of_smaller_batches(monkeypatch):
    x, y = wave(40)
    model = small(epochs=4, trials=1, validation_fraction=0.0).fit(x, y)
    assert (model.members_[0].n_iter_, model.members_[0].epochs) == (3, 3)  # all of them
    monkeypatch.setattr(TabularRegressor, "fit", lambda self, *_, **__: self)
    model = small(epochs=None, trials=1, validation_fraction=0.0).fit(x, y)
    assert (model.members_[0].epochs, model.members_[0].batch_size) == (45, 64)  # the first trial: 3/4 of 60, 2 x 32
    for rows in (2, 50, 400, 3000, 17_000, 10**6):
        epochs, batch = suited(rows)
        assert 12 <= epochs <= 60
        assert epochs in (12, 60) or 800 <= epochs * -(-rows // batch) < 800 + -(-rows // batch)


def test_trials_are_scored_on_rows_that_they_have_not_seen(three):
    x, y = wave()
    assert [set(trial) for trial in three.trials_] == [{"options", "mse", "pcc", "seconds"}] * 2
    assert three.chosen_[0] == int(np.argmin([trial["mse"] for trial in three.trials_]))
    shuffled = np.random.default_rng(1).permutation(y)
    nothing = small().fit(x, shuffled)
    assert min(trial["mse"] for trial in nothing.trials_) > 0.7  # by heart it would be 0
    assert max(abs(trial["pcc"]) for trial in nothing.trials_) < 0.6


def test_no_trial_begins_after_the_seconds_and_one_always_does(three):
    assert len(small(trials=4, seconds=0.0).fit(*wave()).trials_) == 1
    assert (three.seconds, len(three.trials_)) == (None, 2)


def test_whole_groups_are_held_out_and_one_group_leaves_nothing_to_pick_by(monkeypatch):
    x, y = wave(60)
    groups = np.repeat(np.arange(12), 5)
    twin = small(trials=1).fit(x, y, groups=groups)
    assert len(twin.trials_) == 1
    assert small(trials=1).fit(x[:4], y[:4]).trials_ == []
    with pytest.raises(InputError, match="retrieval needs rows of several groups"):
        small().fit(x, y, groups=np.zeros(60))
    seen = []
    monkeypatch.setattr(TabularRegressor, "fit", lambda self, x, *_, **given: seen.append((x, given)) or self)
    monkeypatch.setattr(TabularRegressor, "predict", lambda _, x: seen.append((x, {})) or np.zeros(len(x)))
    small(trials=1).fit(groups[:, None], y, groups=groups)
    train, held, everything = ({*np.ravel(x).astype(int)} for x, _ in seen)
    assert {*map(int, seen[0][1]["groups"])} == train
    assert train | held == everything == set(groups)
    assert not train & held
    assert small(members=3, validation_fraction=0.0).fit(x, y).chosen_ == [0, 1, 0]


def test_frames_categories_gaps_and_several_targets():
    x, y = wave(80)
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["kind"] = np.where(x[:, 2] > 0, "hot", "cold")
    frame.loc[::7, "a"] = np.nan
    both = np.stack([y, 1000 * y], 1)
    model = small(trials=1).fit(frame, both)
    found = model.predict(frame[:6])
    assert found.shape == (6, 2)
    assert np.isfinite(found).all()
    assert list(model.feature_names_in_) == ["a", "b", "c", "kind"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    # Targets count alike, whatever their units: the larger one would decide alone otherwise.
    assert all(0 < trial["mse"] < 3 for trial in model.trials_)


def test_equal_seeds_give_equal_bits():
    x, y = wave(60)
    first, again, other = (small(trials=1, random_state=seed).fit(x, y).predict(x) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_saved_ensemble_comes_back(tmp_path, framed):
    frame, (model, _) = pd.DataFrame(wave(60)[0], columns=list("abc")), framed
    model.save(tmp_path / "kept")
    again = TabularEnsemble.load(tmp_path / "kept")
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert again.get_params() == model.get_params()
    assert (again.trials_, again.chosen_) == (model.trials_, model.chosen_)
    assert list(again.feature_names_in_) == ["a", "b", "c"]


def test_an_ensemble_from_before_there_was_a_default_in_it_predicts_as_it_did(tmp_path, three):
    three.save(tmp_path)
    content = json.loads((tmp_path / INDEX).read_text())
    assert content["params"].pop("default") is False
    (tmp_path / INDEX).write_text(json.dumps(content))
    x, _ = wave()
    assert np.array_equal(TabularEnsemble.load(tmp_path).predict(x), three.predict(x))


def test_a_folder_that_is_no_ensemble_is_refused(tmp_path, framed):
    with pytest.raises(InputError, match=r"no ensemble\.json"):
        TabularEnsemble.load(tmp_path)
    x, y = wave(60)
    framed[0].save(tmp_path)
    content = (tmp_path / INDEX).read_text()
    for broken in ("{", "[]", json.dumps({"params": {"members": 2}}), content.replace('"members": 2', '"members": 0')):
        (tmp_path / INDEX).write_text(broken)
        with pytest.raises(InputError, match=r"ensemble\.json"):
            TabularEnsemble.load(tmp_path)
    (tmp_path / INDEX).write_text(content)
    TabularRegressor(model="pool", dim=4, epochs=1).fit(x[:, :2], y).save(tmp_path / "member-1.safetensors")
    with pytest.raises(InputError, match="do not belong together"):
        TabularEnsemble.load(tmp_path)
    framed[0].save(tmp_path)
    (tmp_path / DEFAULT).unlink()
    with pytest.raises(InputError, match=r"no file .*default"):
        TabularEnsemble.load(tmp_path)
    (tmp_path / "member-1.safetensors").unlink()
    with pytest.raises(InputError, match=r"no file .*member-1"):
        TabularEnsemble.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"members": 0}, "members must be a whole number of at least 1, got 0"),
        ({"trials": 2.5}, "trials must be a whole number"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"seconds": -1.0}, "seconds must be None or at least 0"),
        ({"seconds": "soon"}, "seconds must be None or at least 0"),
        ({"validation_fraction": 1.0}, "validation_fraction must be in"),
        ({"default": 2}, "default must be True or False, got 2"),
        ({"pool": "none"}, "pool must be one of"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_options_are_named(changed, says):
    with pytest.raises(InputError, match=says):
        small(**changed).fit(*wave(30))


def test_verbose_has_a_line_a_fit(framed):
    lines = framed[1].splitlines()
    assert [line.split(":")[0] for line in lines] == ["trial 1 of 2", "trial 2 of 2", "member 1 of 2", "member 2 of 2",
                                                       "the default"]  # fmt: skip


@parametrize_with_checks([TabularEnsemble(trials=1, members=1, epochs=1, seconds=None, default=False)])
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)
