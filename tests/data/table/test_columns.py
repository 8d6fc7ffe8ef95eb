"""Columns: what each kind becomes, as the training rows show it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import QuantileTransformer

from data.made import TRAIN, frame, table
from excora.data.preparation import Preparation
from excora.data.table.columns import MOST_CATEGORIES, Column, learn
from excora.errors import InputError


def test_dates_become_days_and_circles():
    data = table(frame())
    column = next(c for c in Preparation.fit(data, TRAIN).content.columns if c.name == "when")
    values = column.values(data.content.frame["when"])
    when = pd.to_datetime(data.content.frame["when"])
    turn = {
        "time of day": (when.dt.hour * 60 + when.dt.minute) / 1440,
        "weekday": when.dt.dayofweek / 7,
        "day of year": (when.dt.dayofyear - 1) / 365.25,
    }
    wanted = [(when - pd.Timestamp(0)).dt.total_seconds() / 86400]
    wanted += [wave(2 * np.pi * phase) for phase in turn.values() for wave in (np.sin, np.cos)]
    np.testing.assert_allclose(values, np.stack(wanted, 1), atol=1e-8)
    assert [label.removeprefix("when ") for label in column.labels] == [
        "days", *(f"{name} ({wave})" for name in turn for wave in ("sin", "cos")),
    ]  # fmt: skip


def test_only_the_parts_of_a_date_that_vary():
    def labels(*days) -> list[str]:
        found = learn("d", pd.Series(days), np.arange(len(days)))
        return found.labels

    assert not any("time of day" in label for label in labels("2024-01-01", "2024-01-02", "2024-02-05"))
    assert not any(
        "time of day" in label for label in labels("2024-01-01 10:07", "2024-03-02 10:07", "2025-02-05 10:07")
    )
    assert labels("2024-01-01 09:00", "2024-01-01 10:00") == ["d days", "d time of day (sin)", "d time of day (cos)"]
    assert labels("2024-01-01", None) == ["d days"]
    assert learn("d", pd.Series(["2024-01-01"] * 2), np.arange(2)) == "it has one value throughout the training part"


def test_rare_categories_share_a_code():
    cells = [f"c{k % 400}" for k in range(2000)] + ["c7"] * 5
    column = learn("c", pd.Series(cells), np.arange(len(cells)))
    assert len(column.categories) == MOST_CATEGORIES
    assert column.categories[0] == "c7"
    assert set(column.codes(pd.Series(cells)).tolist()) == set(range(MOST_CATEGORIES + 1))


@pytest.mark.parametrize(
    "values",
    [
        {"name": "x"},
        {"name": "x", "kind": "spell", "numbers": [], "categories": []},
        {"name": "x", "kind": "date", "categories": [],
         "numbers": [{"part": "__import__", "mean": 0, "std": 1, "low": 0, "high": 1, "gaps": False}]},
        {"name": "x", "kind": "number", "categories": [],
         "numbers": [{"part": "", "mean": 0, "std": 1, "low": 0, "high": 1, "gaps": False, "quantiles": [2, 1]}]},
    ],
)  # fmt: skip
def test_values_that_are_no_column(values):
    with pytest.raises((KeyError, TypeError, ValueError)):
        Column.from_dict(values)


def test_quantile_scaling_is_that_of_scikit_learn_between_the_ends():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=900), np.exp(rng.normal(size=400)), rng.normal(size=7)):
        number = learn("x", pd.Series(values), np.arange(len(values)), "quantile").numbers[0]
        new = np.concatenate([values[::3], [values.min() - 1, values.max() + 1, values.mean()]])
        found = number.scale(new)
        assert (np.diff(found[np.argsort(new)]) >= 0).all()
        assert found[-3:-1] == pytest.approx([-5.199, 5.199], abs=1e-3)
        if len(values) >= 10:
            count = len(number.quantiles)
            peer = QuantileTransformer(n_quantiles=count, output_distribution="normal", subsample=None)
            assert found == pytest.approx(peer.fit(values[:, None]).transform(new[:, None])[:, 0], abs=1e-6)


def test_equal_values_get_the_middle_of_their_ranks():
    number = learn("x", pd.Series([0.0, 0.0, 0.0, 1.0] * 25), np.arange(100), "quantile").numbers[0]
    low, high = number.scale(np.array([0.0, 1.0]))
    assert low == pytest.approx(-0.43, abs=0.01)  # and not 5 from the middle, like the ends of a continuous column
    assert high == pytest.approx(1.22, abs=0.01)


def test_quantiles_are_learned_from_training_rows_and_survive_json():
    x = np.random.default_rng(0).normal(size=400)
    cells = pd.DataFrame({"a": np.where(np.arange(400) % 8, x, np.nan)})
    data = table(cells)
    train = np.arange(300)
    found = Preparation.fit(data, train, scaling="quantile")
    again = Preparation.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    rows = again.features(data).read(np.arange(400))
    assert torch.equal(rows["numeric"], found.features(data).read(np.arange(400))["numeric"])
    assert rows["numeric"][:300, 0].std() == pytest.approx(1.0, abs=0.1)
    assert (rows["numeric"][rows["missing"]] == 0).all()
    other = table(cells.where(cells.index.to_numpy()[:, None] < 300, 1e9))
    assert Preparation.fit(other, train, scaling="quantile") == found
    spoilt = found.to_dict()
    spoilt["content"]["columns"][0]["numbers"][0]["quantiles"] = (1.0, 0.0)
    with pytest.raises(InputError, match="do not rise"):
        Preparation.from_dict(spoilt)


def test_a_number_may_come_back_with_words_for_missing_and_a_date_in_the_form_of_training():
    number = learn("x", pd.Series([1.0, 2.0, 4.0]), np.arange(3))
    assert number.values(pd.Series(["3", "?"])).ravel().tolist()[0] == 3
    assert np.isnan(number.values(pd.Series(["?", "-"]))).all()
    with pytest.raises(ValueError, match="numbers in training and has text or booleans now, for example 'red'"):
        number.values(pd.Series(["3", "red"]))
    date = learn("day", pd.Series(["31/01/2024", "02/02/2024"]), np.arange(2))
    assert date.form == "%d/%m/%Y"
    assert Column.from_dict(dataclasses.asdict(date)) == date
    assert date.values(pd.Series(["03/04/2024"]))[0, 0] == 19816, "the third of April, though it could be March"
    with pytest.raises(ValueError, match="unknown form"):
        Column.from_dict(dataclasses.asdict(date) | {"form": "%x"})
