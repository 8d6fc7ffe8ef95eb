"""SteadyRegressor: its members against their definitions, drifting columns, time, broken input, scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from excora.errors import InputError
from excora_studies import steady_members as members
from excora_studies.steady import SteadyRegressor, seconds


def quick(**changed):
    """A regressor that is fitted in a few hundredths of a second."""
    return SteadyRegressor(**{"networks": 1, "width": 8, "short": 1, "long": 2, **changed})


def rows(n=120, seed=0, columns=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, columns))
    return x, 5 + x @ np.linspace(2, -1, columns) + 0.1 * rng.normal(size=n)


def scores(prediction, y):
    return np.corrcoef(prediction, y)[0, 1], np.square(prediction - y).mean()


@pytest.mark.parametrize("blocks", [1, 4, 40])
def test_the_linear_member_is_ridge_with_a_free_level_for_each_block(blocks):
    x, y = rows(60)
    block = np.sort(np.random.default_rng(1).integers(0, blocks, 60))
    levels = (block[:, None] == np.unique(block)).astype(float)
    design = np.hstack([x, levels])
    penalty = np.diag([members.PENALTY * 60] * 3 + [0.0] * levels.shape[1])
    slow = np.linalg.solve(design.T @ design + penalty, design.T @ y)[:3]
    assert np.allclose(members.within(x, y, block), slow, rtol=0, atol=1e-8)
    assert np.allclose(levels.T @ members.centred(x, block), 0, atol=1e-12)


def test_blocks_are_of_equal_length_in_time():
    assert members.time_blocks(np.array([0.0, 0.9, 1.0, 3.9, 4.0]), 4).tolist() == [0, 0, 1, 3, 3]
    assert members.time_blocks(np.full(3, 7.0), 4).tolist() == [0, 0, 0]
    assert members.time_blocks(np.arange(3.0), 8).tolist() == [0, 0, 0]  # one row a block: nothing to learn within
    assert members.time_blocks(np.array([-1.7e308, 0.0, 1.7e308, 1.7e308]), 2).tolist() == [0, 1, 1, 1]


def test_batches_hold_each_row_once_and_one_block():
    block = torch.tensor([0] * 300 + [1] * 5 + [2])
    everything = members.batches(None, 306)
    assert [len(part) for part in everything] == [members.BATCH, 50]
    assert sorted(torch.cat(everything).tolist()) == list(range(306))
    parts = members.batches(block, 306)
    assert all(len(block[part].unique()) == 1 for part in parts)
    assert sorted(torch.cat(parts).tolist()) == list(range(305))  # a row alone has no variance


def test_the_loss_of_a_block_is_the_variance_of_its_residual():
    residual = torch.randn(50, dtype=torch.float64, requires_grad=True)
    loss = members.block_loss(residual + 1e3)
    assert loss.item() == pytest.approx(np.var(residual.detach().numpy()), rel=1e-9)
    loss.backward()
    expected = 2 / 50 * (residual - residual.mean())
    assert torch.allclose(residual.grad, expected, atol=1e-12)


def test_auto_takes_the_logarithm_of_what_is_positive_and_skewed():
    skewed = np.exp(np.random.default_rng(0).normal(size=400))
    assert members.Label.learn(skewed, "auto").log
    assert not members.Label.learn(skewed, "plain").log
    assert not members.Label.learn(skewed - skewed.min(), "auto").log
    assert not members.Label.learn(np.random.default_rng(0).uniform(1, 2, 400), "auto").log
    assert members.Label.learn(np.array([1.0, 2.0]), "log").log
    log = np.log(skewed)
    assert np.allclose(members.Label.learn(skewed, "log").of(skewed), (log - log.mean()) / log.std())


@pytest.mark.parametrize("target", ["plain", "log"])
@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
def test_a_member_is_calibrated_by_least_squares(target, unit):
    rng = np.random.default_rng(0)
    values = rng.normal(size=80)
    y = np.exp(values + rng.normal(size=80))
    found = members.calibrate(values, y * unit, members.Label.learn(y * unit, target))
    mean, std = np.log(y).mean(), np.log(y).std()
    f = np.exp(np.minimum((values - values.mean()) * std + mean, np.log(y.max()))) if target == "log" else values
    slope, level = np.polyfit(f, y, 1)
    assert np.allclose(y.mean() + found(values) / unit, level + slope * f, rtol=1e-9)
    if target == "plain":
        assert found.slope == pytest.approx(slope * unit, rel=1e-9)
    far = y.mean() + found(np.array([-1e3, 1e3])) / unit
    assert np.allclose(far, level + slope * np.array([f.min(), f.max()]), rtol=1e-9)


def test_a_member_that_says_nothing_is_the_mean():
    y = np.array([1.0, 2.0, 6.0])
    for values in (np.zeros(3), 1e6 + np.array([0.0, 1e-9, 0.0])):
        found = members.calibrate(values, y, members.Label.learn(y, "plain"))
        assert found(np.array([0.0, 5.0])).tolist() == [0.0, 0.0]


def drifting(drift, seed, n=2000):
    """Three steady columns that matter, three that do not and go in slow waves, as does the level of the target."""
    rng = np.random.default_rng(seed)
    turns = np.linspace(0, 1, n)[:, None] * rng.uniform(0.5, 1.5, 4) + rng.uniform(size=4)
    slow = drift * np.sin(2 * np.pi * turns)
    x = rng.normal(size=(n, 6))
    y = x[:, :3] @ [1.0, -0.7, 0.5] + slow[:, 0] + rng.normal(size=n)
    return np.hstack([x[:, :3], x[:, 3:] + 5 * slow[:, 1:]]), y


def compare(drift, tables):
    """Mean PCC and MSE over some tables, on the last quarter of each: ours, then ridge."""
    found = []
    for seed in range(tables):
        x, y = drifting(drift, seed)
        cut = len(x) * 3 // 4
        ours = SteadyRegressor(networks=1).fit(x[:cut], y[:cut]).predict(x[cut:])
        ridge = RidgeCV(np.logspace(-2, 4, 13)).fit(x[:cut], y[:cut]).predict(x[cut:])
        found.append([*scores(ours, y[cut:]), *scores(ridge, y[cut:])])
    return np.mean(found, 0)


def test_it_beats_ridge_where_columns_drift():
    pcc, mse, ridge_pcc, ridge_mse = compare(1.0, 6)
    assert pcc > ridge_pcc
    assert mse < 0.95 * ridge_mse


def test_it_is_close_to_ridge_where_nothing_drifts():
    pcc, mse, ridge_pcc, ridge_mse = compare(0.0, 2)
    assert pcc > ridge_pcc - 0.01
    assert mse < 1.05 * ridge_mse


def test_a_skewed_target_is_learned_better_by_its_logarithm():
    x, y = drifting(0.0, 0)
    y = np.exp(y)
    log, without = (
        scores(SteadyRegressor(networks=1, target=t).fit(x[:1500], y[:1500]).predict(x[1500:]), y[1500:])
        for t in ("auto", "plain")
    )
    assert log[0] > without[0] + 0.02
    assert log[1] < without[1]


def test_rows_are_sorted_by_time_first():
    x, y = rows()
    time = np.cumsum(np.random.default_rng(1).uniform(1, 2, len(x)))
    shuffled = np.random.default_rng(2).permutation(len(x))
    expected = quick().fit(x, y, time=time).predict(x)
    assert np.array_equal(quick().fit(x[shuffled], y[shuffled], time=time[shuffled]).predict(x), expected)
    stamps = pd.Series(pd.Timestamp("2024-01-01", tz="Europe/Paris") + pd.to_timedelta(time, unit="h"))
    assert np.array_equal(quick().fit(x, y, time=stamps).predict(x), expected)
    uneven = quick().fit(x, y, time=time**4).predict(x)
    assert not np.array_equal(uneven, expected)


def test_without_time_rows_are_in_order():
    x, y = rows()
    assert np.array_equal(quick().fit(x, y).predict(x), quick().fit(x, y, time=range(len(x))).predict(x))


def test_seeds_decide_and_random_states_stay():
    x, y = rows()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, again, other = (quick(seed=seed).fit(x, y).predict(x) for seed in (1, 1, np.int64(2)))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        assert np.array_equal(quick(seed=1).fit(x, y).predict(x), first)


def test_it_survives_pickling():
    x, y = rows()
    model = quick().fit(x, np.exp(y))
    again = pickle.loads(pickle.dumps(model))
    assert model.log_
    assert np.array_equal(again.predict(x), model.predict(x))
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        clone(model).predict(x)


def test_constant_columns_and_targets():
    x, y = rows()
    with_constant = np.column_stack([np.full(len(x), 0.1), x])
    model = quick().fit(with_constant, y)
    moved = with_constant + np.array([1e9, 0, 0, 0])
    assert np.array_equal(model.predict(moved), model.predict(with_constant))
    assert model.weight_[0] == 0
    nothing = quick().fit(np.full((40, 2), 0.1), y[:40])
    assert np.array_equal(nothing.predict(x[:, :2]), np.full(len(x), nothing.predict(x[:1, :2])[0]))
    assert nothing.predict(x[:1, :2])[0] == pytest.approx(y[:40].mean(), rel=1e-12)
    for target in ("plain", "log", "auto"):
        assert (quick(target=target).fit(x, np.full(len(x), 0.1)).predict(x) == 0.1).all()


@given(
    n=st.integers(2, 20),
    columns=st.integers(1, 3),
    unit=st.sampled_from([1e-300, 1e-150, 1.0, 1e150, 1e300]),
    kind=st.sampled_from(["numbers", "two values", "positive", "one outlier"]),
    time=st.sampled_from([None, "same", "ties", "gap"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_small_and_strange_tables_give_finite_predictions_within_reason(n, columns, unit, kind, time, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, columns)) * unit, rng.normal(size=n)
    if kind == "two values":
        x, y = np.sign(x), np.sign(y)
    if kind == "positive":
        y = np.exp(5 * y)
    if kind == "one outlier":
        x[0], y[0] = 1e3 * unit, 1e6
    y = y * unit
    when = {None: None, "same": np.zeros(n), "ties": np.arange(n) // 3, "gap": np.append(np.zeros(n - 1), 1e300)}[time]
    model = quick().fit(x, y, time=when)
    prediction = model.predict(np.vstack([x, -1e5 * np.abs(x)]))
    assert np.isfinite(prediction).all()
    # |slope (f - centre)| <= std(y) |f - centre| / std(f), and no one of n values is further out than sqrt(n).
    assert np.abs((prediction - y.mean()) / unit).max() <= 1.001 * np.sqrt(n) * (y / unit).std()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"blocks": 0}, r"blocks must be an int in \[1, 4294967296\), got 0"),
        ({"networks": 2.0}, "networks must be an int"),
        ({"seed": -1}, r"seed must be an int in \[0"),
        ({"long": True}, "long must be an int"),
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\), got 1.0"),
        ({"learning_rate": np.nan}, "learning_rate must be a number"),
        ({"weight_decay": "0.1"}, "weight_decay must be a number"),
        ({"target": "square"}, "target must be 'auto', 'log' or 'plain', got 'square'"),
    ],
)
def test_options_out_of_range_are_named(changed, says):
    with pytest.raises(InputError, match=says):
        quick(**changed).fit(*rows(10))


def test_what_is_wrong_with_the_data_is_said():
    x, y = rows(20)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(
        town=["north", "south"] * 10, code=pd.Categorical([1, 2] * 10), day=pd.Timestamp("2024-01-01")
    )
    with pytest.raises(InputError, match=r"town, code, day .*get_dummies"):
        quick().fit(frame, y)
    model = quick().fit(frame[["a", "b"]].assign(flag=frame["a"] > 0), y)
    with pytest.raises(InputError, match="flag"):
        model.predict(frame[["a", "b"]].assign(flag="yes"))
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match=r"NaN|infinity"):
            quick().fit(np.where(x == x[3, 1], bad, x), y)
        with pytest.raises(InputError, match=r"NaN|infinity"):
            quick().fit(x, np.where(y == y[3], bad, y))
    with pytest.raises(InputError, match="could not convert"):
        quick().fit(x, ["high", "low"] * 10)
    with pytest.raises(InputError, match="1d array"):
        quick().fit(x, np.column_stack([y, y]))
    with pytest.raises(InputError, match=r"y > 0, got -"):
        quick(target="log").fit(x, y - 10)
    with pytest.raises(InputError, match="minimum of 2"):
        quick().fit(x[:1], y[:1])


def test_times_that_are_none_are_refused():
    assert seconds(np.array(["2024-01-01", "2024-01-02"], "datetime64[D]"), 2).tolist() == [0, 86400]
    assert seconds(pd.to_timedelta([1, 3], unit="s"), 2).tolist() == [1, 3]
    assert seconds(torch.tensor([1, 2]), 2).tolist() == [1, 2]
    for time, says in (
        ([1.0, np.nan], r"finite, got nan in row 1"),
        ([1.0, np.inf], "finite, got inf"),
        ([pd.Timestamp("2024-01-01"), pd.NaT], "finite, got nan in row 1"),
        (["2024-01-01", "2024-01-02"], "see pandas.to_datetime"),
        ([1.0], r"\(2,\), got \(1,\)"),
        (np.zeros((2, 1)), r"got \(2, 1\)"),
        (5, r"got \(\)"),
        ([1j, 2j], "numbers or datetimes, got complex128"),
    ):
        with pytest.raises(InputError, match=says):
            seconds(time, 2)


@parametrize_with_checks([SteadyRegressor(networks=1)])
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)
